"""A sweep on a terminal: a table that fills up, the running cells, and one line of numbers; as much as fits."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from emi_bench.sweep.outcome import Outcome
from emi_bench.sweep.plan import Cell, Plan
from emi_bench.sweep.progress import Display
from emi_bench.terminal import duration

GAP = 2  # between columns
LEAST = 3  # lines for running cells, before methods lose theirs
NOTES = 3  # lines above all of it, where what was noted last stays in sight

Column = tuple[str, int]  #: data set and memory


class LiveDisplay(Display):
    """The line of numbers is always there; memories of a data set are summed up and methods left out where need be."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.of = _columns(self.cells)
        self.total = Counter(self._at(c) for c in self.cells)
        self.finished_of: Counter[tuple[str, Column]] = Counter()
        self.live = Live(console=self.console, refresh_per_second=2, get_renderable=self.render)

    def __enter__(self) -> Display:
        self.live.start()
        return super().__enter__()

    def __exit__(self, *exception: object) -> None:
        self.live.stop()

    def already(self, cells: list[Cell]) -> None:
        self.finished_of.update(self._at(c) for c in cells)

    def _at(self, cell: Cell) -> tuple[str, Column]:
        """The cell's place in the table; one without memory is in the first column of its data set."""
        spec = cell.spec
        memory = spec.memory or min((m for d, m in self.of if d == spec.dataset), default=0)
        return spec.method + (f" [{spec.variant}]" if spec.variant else ""), (spec.dataset, memory)

    def _count(self, cell: Cell, state: str) -> None:
        super()._count(cell, state)
        self.finished_of[self._at(cell)] += state in ("done", "present")

    def finished(self, cell: Cell, outcome: Outcome) -> None:
        return None

    def render(self) -> Group:
        width, height = self.console.width, self.console.height - NOTES
        table, lines = self._matrix(width, height - 2 - min(len(self.running), LEAST))
        running = self._running(max(0, height - 2 - lines))
        return Group(table, Text(), *running, Text(self.line(), no_wrap=True, overflow="ellipsis"))

    def _matrix(self, width: int, height: int) -> tuple[Table, int]:
        """The table and its lines."""
        methods = list(dict.fromkeys(m for m, _ in self.total))
        columns: list[tuple[str, list[Column]]] = [(f"{d}\n{m or ''}", [(d, m)]) for d, m in self.of]
        if not any(m for _, m in self.of):
            columns = [(d, [(d, m)]) for d, m in self.of]
        if self._width(methods, columns) > width:
            sets = dict.fromkeys(d for d, _ in self.of)
            columns = [(d, [c for c in self.of if c[0] == d]) for d in sets]
        if self._width(methods, columns) > width:
            columns = [("runs", list(self.of))]
        head = 1 + any("\n" in name for name, _ in columns)
        shown = methods
        if head + len(methods) > height:  # those at work first, then those that are not done
            ranked = sorted(methods, key=self._rank)
            keep = set(ranked[: max(0, height - head - 1)])
            shown = [m for m in methods if m in keep]
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
        table.add_column("", no_wrap=True)
        for name, _ in columns:
            table.add_column(name, justify="right", no_wrap=True)
        for method in shown:
            table.add_row(method, *(self._entry([method], of) for _, of in columns))
        if rest := [m for m in methods if m not in shown]:
            table.add_row(f"{len(rest)} more", *(self._entry(rest, of) for _, of in columns))
        return table, head + len(shown) + bool(rest)

    def _width(self, methods: list[str], columns: list[tuple[str, list[Column]]]) -> int:
        entries = [max(len(line) for line in [*n.split("\n"), self._entry(methods, of).plain]) for n, of in columns]
        return max(map(len, methods)) + sum(entries) + GAP * (len(columns) + 1)

    def _rank(self, method: str) -> tuple[bool, bool]:
        at_work = any(self._at(run.cell)[0] == method for run in self.running.values())
        done = all(self.finished_of[at] == n for at, n in self.total.items() if at[0] == method)
        return not at_work, done

    def _entry(self, methods: list[str], columns: list[Column]) -> Text:
        places = [(m, c) for m in methods for c in columns]
        total, done = sum(self.total[p] for p in places), sum(self.finished_of[p] for p in places)
        if not total:
            return Text("")
        return Text(f"{done}/{total}", style="green" if done == total else "" if done else "dim")

    def _running(self, lines: int) -> list[Table | Text]:
        runs = list(self.running.values())
        shown = runs if len(runs) <= lines else runs[: max(0, lines - 1)]
        table = Table(box=None, pad_edge=False, show_header=False)
        now = time.monotonic()
        for run in shown:
            table.add_row(f"  {run.cell.spec.label}", str(run), duration(now - run.began))
        found: list[Table | Text] = [table] if shown else []
        if len(shown) < len(runs) and lines:
            found.append(Text(f"  and {len(runs) - len(shown)} more"))
        return found

    def line(self) -> str:
        hours = (time.monotonic() - self.began) / 3600
        ended = self.ended_now["done"]
        rate = f"  {ended / hours:.0f} runs/h" if ended and hours else ""
        failed = f"  {len(self.failures)} failed" if self.failures else ""
        return f"{self.n_done}/{self.n_cells} done{failed}  {len(self.running)} running{rate}  left {self.eta()}"


def _columns(cells: list[Cell]) -> list[Column]:
    """Data sets in their order, memories by size."""
    sets = list(dict.fromkeys(c.spec.dataset for c in cells))
    found = {(c.spec.dataset, c.spec.memory) for c in cells}
    with_memory = {d for d, m in found if m}
    kept = [(d, m) for d, m in found if m or d not in with_memory]
    return sorted(kept, key=lambda column: (sets.index(column[0]), column[1]))


def make_display(console: Console, plan: Plan, seconds: dict[str, float], *, live: bool = True) -> Display:
    """Live on a terminal, plain elsewhere."""
    if not (live and console.is_terminal):
        return Display(console, plan.cells, len(plan.done), seconds)
    made = LiveDisplay(console, plan.cells, len(plan.done), seconds)
    made.already(plan.done)
    return made
