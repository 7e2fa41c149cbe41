"""What a sweep shows while it runs: a live table on a terminal, a line an event elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from emi_bench.store.leases import Claim, holder
from emi_bench.sweep.outcome import Outcome
from emi_bench.sweep.plan import Cell, Plan
from emi_bench.terminal import duration, say

SHOWN = 12  # running cells in the live display


class Display:
    """Plain lines: one for every run that ends, and nothing else."""

    def __init__(self, console: Console, cells: list[Cell], done: int, seconds: dict[str, float]) -> None:
        self.console = console
        self.total = Counter(_row(c) for c in cells)
        self.left = dict(seconds)  #: estimated seconds of each run that is to come
        self.n_cells, self.n_done = len(cells), done
        self.ended_now: Counter[str] = Counter()
        self.failures: list[tuple[Cell, Outcome]] = []
        self.running: dict[str, tuple[Cell, float, str]] = {}
        self.busy = 0.0  #: seconds of runs that ended
        self.predicted = 0.0  #: what they were estimated at
        self.began = time.monotonic()
        self.shown = False  #: whether runs were to begin
        self.slots = 1
        self._waiting: tuple[str, ...] = ()

    def __enter__(self) -> Display:
        self.began, self.shown = time.monotonic(), True
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    # --- events --------------------------------------------------------------------------------------------------

    def started(self, cell: Cell) -> None:
        self.running[cell.run_id] = (cell, time.monotonic(), "")

    def progressed(self, cell: Cell, phase: int, n_phases: int, accuracy: float | None) -> None:
        began = self.running.get(cell.run_id, (cell, time.monotonic(), ""))[1]
        told = "" if accuracy is None else f"  {100 * accuracy:.1f} %"
        self.running[cell.run_id] = (cell, began, f"task {min(phase + 1, n_phases)}/{n_phases}{told}")

    def found(self, cell: Cell) -> None:
        """A cell that was in the store when its turn came: another sweep's work, or found again after a loss."""
        if cell.run_id in self.left:
            self._count(cell, "present")

    def ended(self, cell: Cell, outcome: Outcome) -> None:
        self.running.pop(cell.run_id, None)
        if outcome.state in ("held", "out_of_memory"):
            return
        self.busy += outcome.seconds
        self.predicted += self.left.get(cell.run_id, 0.0) if outcome.state == "done" else 0.0
        self._count(cell, outcome.state)
        if outcome.state in ("failed", "lost"):
            self.failures.append((cell, outcome))
            self.note(f"FAILED {cell.spec.label}: {outcome.error}")
        elif outcome.state == "done":
            self.finished(cell, outcome)

    def _count(self, cell: Cell, state: str) -> None:
        self.left.pop(cell.run_id, None)
        self.ended_now[state] += 1
        self.n_done += state in ("done", "present")

    def finished(self, cell: Cell, outcome: Outcome) -> None:
        accuracy = "" if outcome.accuracy is None else f"{100 * outcome.accuracy:5.1f} %"
        went_on = f", went on after task {outcome.resumed_from}" if outcome.resumed_from else ""
        self.note(
            f"[{self.n_done}/{self.n_cells}] {cell.spec.label}  {accuracy}  {duration(outcome.seconds)}{went_on}"
            f"  (left {self.eta()})"
        )

    def waiting(self, held: list[tuple[Cell, Claim]]) -> None:
        """Told once for every set of holders."""
        names = tuple(sorted({holder(claim) for _, claim in held}))
        if names != self._waiting:
            self._waiting = names
            n = len(held)
            self.note(f"waiting for {n} run{'s' * (n > 1)} held by another sweep ({'; '.join(names)}); Ctrl-C leaves")

    def note(self, text: str) -> None:
        say(self.console, text)

    # --- numbers -------------------------------------------------------------------------------------------------

    def eta(self) -> str:
        """Estimated seconds of what is left, corrected by how wrong the estimates were so far."""
        correction = self.busy / self.predicted if self.predicted and self.busy else 1.0
        left = sum(self.left.values()) * correction
        longest = max(self.left.values(), default=0.0) * correction
        return duration(max(left / self.slots, longest))

    def utilisation(self) -> float:
        """Share of the slots' time spent in runs."""
        elapsed = time.monotonic() - self.began
        return min(1.0, self.busy / (self.slots * elapsed)) if elapsed > 0 else 0.0


class LiveDisplay(Display):
    """A table of methods by settings that fills up, the running cells, and one line of numbers."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.finished_of: Counter[tuple[str, str]] = Counter()
        self.live = Live(console=self.console, refresh_per_second=2, get_renderable=self.render)

    def __enter__(self) -> Display:
        self.live.start()
        return super().__enter__()

    def __exit__(self, *exception: object) -> None:
        self.live.stop()

    def already(self, cells: list[Cell]) -> None:
        self.finished_of.update(_row(c) for c in cells)

    def _count(self, cell: Cell, state: str) -> None:
        super()._count(cell, state)
        self.finished_of[_row(cell)] += state in ("done", "present")

    def finished(self, cell: Cell, outcome: Outcome) -> None:
        return None

    def render(self) -> Group:
        columns = sorted({column for _, column in self.total})
        matrix = Table(box=None, pad_edge=False, header_style="bold")
        matrix.add_column("")
        for column in columns:
            matrix.add_column(column, justify="right")
        for method in dict.fromkeys(m for m, _ in self.total):
            row = [self._entry(method, c) for c in columns]
            matrix.add_row(method, *row)
        running = Table(box=None, pad_edge=False, show_header=False)
        now = time.monotonic()
        for cell, began, told in list(self.running.values())[:SHOWN]:
            running.add_row(f"  {cell.spec.label}", told, duration(now - began))
        if len(self.running) > SHOWN:
            running.add_row(f"  and {len(self.running) - SHOWN} more", "", "")
        return Group(matrix, Text(), running, Text(self.line()))

    def _entry(self, method: str, column: str) -> Text:
        total, done = self.total[method, column], self.finished_of[method, column]
        if not total:
            return Text("")
        return Text(f"{done}/{total}", style="green" if done == total else "" if done else "dim")

    def line(self) -> str:
        hours = (time.monotonic() - self.began) / 3600
        ended = self.ended_now["done"]
        rate = f"{ended / hours:.0f} runs/h" if ended and hours else "no run has ended yet"
        failed = f"  {len(self.failures)} failed" if self.failures else ""
        return f"{self.n_done}/{self.n_cells} done{failed}  {len(self.running)} running  {rate}  left {self.eta()}"


def _row(cell: Cell) -> tuple[str, str]:
    spec = cell.spec
    variant = f" [{spec.variant}]" if spec.variant else ""
    return spec.method + variant, f"{spec.dataset}{f' {spec.memory}' if spec.memory else ''}"


def make_display(console: Console, plan: Plan, seconds: dict[str, float], *, live: bool = True) -> Display:
    """Live on a terminal, plain elsewhere."""
    if not (live and console.is_terminal):
        return Display(console, plan.cells, len(plan.done), seconds)
    made = LiveDisplay(console, plan.cells, len(plan.done), seconds)
    made.already(plan.done)
    return made
