"""The grid behind every table and figure: the runs of each cell, by row (method) and column (setting)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from emi_bench import reference
from emi_bench.report.axes import ACCURACY, Pairs, Row, Setting, is_paper_setting, odd_protocol, papers_rows
from emi_bench.report.cells import TableCell, summarize
from emi_bench.report.checks import Records, few, read_runs
from emi_bench.report.options import Scope
from emi_bench.report.runs import Note, Run

#: The paper's seeds.
TEN = frozenset(range(int(reference.settings()["runs"])))


class Grid:
    """All trusted runs, by row and column."""

    def __init__(self, records: Records, scope: Scope = Scope()) -> None:
        self.scope = scope
        self._planned = scope.planned
        self.n_stored = len(records)  #: also those that were not asked for
        self.runs, self.notes = read_runs(records, scope.wants)
        self._facts = {r.row.method: r.row.known for r in sorted(self.runs, key=lambda r: str(r.about.get("finished")))}
        self.ours = scope.ours or self._usual_ours()
        self._sources = {r.setting.dataset: r.source for r in self.runs}
        self._cells: dict[tuple[Row, Setting], list[Run]] = defaultdict(list)
        for r in self.runs:
            self._cells[self.row(r.row.method, r.row.variant), r.setting].append(r)
        #: Rows of earlier versions of a method, each with that of the newest.
        self.older = {r.row: r.newest for r in self.runs if r.newest is not None}
        self._made: dict[tuple[Row, Setting, bool], TableCell] = {}
        self._say_protocols()
        self._say_spare()

    def _usual_ours(self) -> str:
        """The user's own method, if there is one; else the paper's."""
        own = [method for method in self._facts if Row(method).own]
        return own[0] if len(own) == 1 else next(row.method for row in papers_rows() if row.role == "ours")

    def row(self, method: str, variant: str = "") -> Row:
        """A row with what its latest run says of it; the report decides who is ours."""
        facts = self._facts.get(method) or Row(method).known
        role = "ours" if method == self.ours else "baseline" if facts.role == "ours" else facts.role
        return Row(method, variant, replace(facts, role=role))

    @cached_property
    def main_seeds(self) -> frozenset[int]:
        """Without sweeps: the paper's seeds, where its columns have runs of them beside others; else nothing to tell
        apart."""
        seeds = {
            r.seed for (row, s), runs in self._cells.items() if is_paper_setting(s) or not row.uses_memory for r in runs
        }
        return TEN if seeds & TEN and not seeds <= TEN else frozenset()

    def _say_spare(self) -> None:
        mine = [(row, s) for row, s in self._cells if not row.variant and is_paper_setting(s)]
        shown = {r.run_id for row, s in mine for r in self.cell(row, s).runs}
        spare = sorted({r.seed for key in mine for r in self._cells[key] if r.run_id not in shown})
        if spare:
            text = f"runs of seeds {few(map(str, spare), 5)} serve Table VI and the variants paired with them alone"
            self.notes.append(Note("spare-seeds", text))

    def _say_protocols(self) -> None:
        protocols: dict[str, set[Pairs]] = defaultdict(set)
        for s in self.settings:
            protocols[s.dataset].add(s.protocol)
        several = sorted(d for d, p in protocols.items() if len(p) > 1)
        if several:
            text = f"runs under several protocols, shown in columns of their own: {', '.join(several)}"
            self.notes.append(Note("protocol", text))

    @cached_property
    def settings(self) -> list[Setting]:
        """Columns that exist, the paper's first. Memory-free runs make columns only where nothing else does."""
        with_memory = {s for row, s in self._cells if row.uses_memory}
        covered = {(s.dataset, s.n_tasks) for s in with_memory}
        papers = {s.dataset for s in with_memory if is_paper_setting(s)}
        alone = {
            c for row, s in self._cells if not row.uses_memory for c in self._served(s)
            if (s.dataset, s.n_tasks) not in covered or (is_paper_setting(c) and s.dataset not in papers)
        }  # fmt: skip
        known = list(reference.settings()["datasets"])

        def order(s: Setting) -> tuple[Any, ...]:
            place = known.index(s.dataset) if s.dataset in known else len(known)
            odd = odd_protocol(s.protocol)
            return (place, s.dataset, s.n_tasks, len(odd), str(sorted(odd.items())), s.memory)

        planned = {replace(s, memory=m) for s in with_memory for m in self._planned.memories(s, self._source(s))}
        return sorted(
            (s for s in with_memory | alone | planned if self.scope.has_column(s.dataset, s.memory)), key=order
        )

    def _served(self, setting: Setting) -> list[Setting]:
        """The columns that memory-free runs stand in by themselves: those of the paper where they are its, else one."""
        paper = reference.settings()["datasets"].get(setting.dataset, {}).get("memories", [])
        memories = self._planned.memories(setting, self._source(setting)) or paper
        columns = [replace(setting, memory=m) for m in sorted(memories)]
        return [c for c in columns if is_paper_setting(c)] or [setting]

    @cached_property
    def paper_settings(self) -> list[Setting]:
        """Those of the paper's nine columns that have runs or are planned, with `paper_grid` all; none where the store
        holds no run of one."""
        mine = [s for s in self.settings if is_paper_setting(s)]
        if not mine:
            return []
        have = {(s.dataset, s.memory): s for s in reversed(mine)}
        nine = (
            have.get((d, m)) or Setting(d, v["n_tasks"], m, mine[0].protocol)
            for d, v in reference.settings()["datasets"].items()
            for m in v["memories"]
        )
        return [
            s
            for s in nine
            if self.scope.has_column(s.dataset, s.memory)
            and (s in mine or self.scope.paper_grid or self._planned.methods(s, s.dataset))
        ]

    @cached_property
    def other_settings(self) -> list[Setting]:
        """Every column that is not one of the paper's nine."""
        return [s for s in self.settings if s not in self.paper_settings]

    def cell(self, row: Row, setting: Setting, spare: bool = False) -> TableCell:
        """The runs of a cell, maybe none. Runs of a memory-free method serve every memory of their data set.

        In the paper's columns the default runs are those of its ten seeds (of the sweeps that have them); `spare` adds
        the seeds that other sweeps used, against which their variants are paired.
        """
        key = (row, setting, spare)
        if key not in self._made:
            self._made[key] = self._cell(self.row(row.method, row.variant), setting, spare)
        return self._made[key]

    def _cell(self, row: Row, setting: Setting, spare: bool) -> TableCell:
        runs = self._cells.get((row, setting), [])
        if not runs and not row.uses_memory:
            runs = self._memory_free(row, setting)
        seeds = self._seeds(row, setting, runs, spare)
        if seeds:
            runs = [r for r in runs if r.seed in seeds]
        expected = (
            len(seeds) if self._planned.parts and (seeds or not self._filled(setting)) else self.expected(setting)
        )
        return TableCell(tuple(sorted(runs, key=lambda r: r.seed)), expected, seeds)

    def _filled(self, setting: Setting) -> bool:
        """Whether every row has a cell in this column, also those that no sweep asks for."""
        return self.scope.paper_grid and is_paper_setting(setting)

    def _seeds(self, row: Row, setting: Setting, runs: list[Run], spare: bool) -> frozenset[int]:
        """The seeds that count in a cell; none where all do."""
        main_only = not spare and not row.variant and is_paper_setting(setting)
        if not self._planned.parts:
            return self.main_seeds if main_only else frozenset()
        empty = self._planned.seeds_at(row.method, setting, self._source(setting))
        asked = self._planned.seeds(runs) if runs else empty
        main = [seeds for seeds in asked if seeds & TEN] if main_only else []
        return frozenset().union(*(main or asked))

    def _source(self, setting: Setting) -> str:
        return self._sources.get(setting.dataset, setting.dataset)

    def _memory_free(self, row: Row, setting: Setting) -> list[Run]:
        fits = {
            s.protocol: runs
            for (r, s), runs in self._cells.items()
            if r == row and (s.dataset, s.n_tasks) == (setting.dataset, setting.n_tasks)
        }
        if setting.protocol in fits:
            return fits[setting.protocol]
        # How a memory is used means nothing without one, and a joint method has batches of its own.
        idle = {"replay_batch", "reservoir"} | ({"batch"} if row.known.joint else set())
        wanted = {k: v for k, v in setting.protocol if k not in idle}
        same = [runs for p, runs in fits.items() if {k: v for k, v in p if k not in idle} == wanted]
        return same[0] if len(same) == 1 else []

    def expected(self, setting: Setting) -> int:
        """Runs of a complete cell in this column, where no sweep says it."""
        if is_paper_setting(setting):
            return int(reference.settings()["runs"])
        return self._most.get(setting.family, 0)

    @cached_property
    def _most(self) -> dict[tuple[str, int, Pairs], int]:
        most: dict[tuple[str, int, Pairs], int] = defaultdict(int)
        for (_, s), runs in self._cells.items():
            most[s.family] = max(most[s.family], len(runs))
        return most

    def rows(self, settings: Sequence[Setting], variants: bool = False) -> list[Row]:
        """The rows over these columns: methods that ran in one of them or are planned there, in the paper's columns
        with `paper_grid` also its methods that have not run.

        Without `variants` a change of constants has a row only where its method has no default run in these columns.
        """
        here = {row for row in self._known_rows if any(self.cell(row, s).n for s in settings)}
        default = {row.method for row in here if not row.variant}
        shown = {row for row in here if variants or not row.variant or row.method not in default}
        asked = [m for s in settings for m in self._planned.methods(s, self._source(s))]
        asked += self.scope.methods
        if self.scope.paper_grid and all(s in self.paper_settings for s in settings):
            asked += [row.method for row in papers_rows()]
        have = {row.method for row in shown}
        shown |= {self.row(m) for m in asked if m not in have and self.scope.has_method(m)}
        return sorted(shown, key=lambda row: row.order)

    def joint(self, row: Row, setting: Setting) -> bool:
        """Whether all tasks are learned together here: no curve, no matrix, no step to compare with others'."""
        runs = self.cell(row, setting).runs
        return all(r.joint for r in runs) if runs else row.known.joint

    def ran(self, setting: Setting) -> list[Row]:
        """The rows of a column that have runs in it."""
        return [row for row in self.rows([setting]) if self.cell(row, setting).n]

    @cached_property
    def _known_rows(self) -> set[Row]:
        return {row for row, _ in self._cells}

    def variants(self, setting: Setting, older: bool = False) -> list[Row]:
        """Named changes of a method's constants that ran in this column; `older`: its earlier versions too."""
        found = (r for r, s in self._cells if s == setting and r.variant and (older or r not in self.older))
        return sorted(found, key=lambda r: r.order)

    @cached_property
    def focus(self) -> Row | None:
        """Whom the comparisons are about: ours where it ran, else the best on average over the columns it ran in."""
        ran = [
            r for r in self.rows(self.settings) if r.role != "bound" and any(self.cell(r, s).n for s in self.settings)
        ]
        ours = [r for r in ran if r.role == "ours"]
        if ours:
            return ours[-1]
        places: dict[Row, list[int]] = defaultdict(list)
        for s in self.settings:
            found = {r: x.mean for r in ran if (x := summarize(self.cell(r, s), ACCURACY))}
            for place, row in enumerate(sorted(found, key=lambda r: -found[r])):
                places[row].append(place)
        most = max(map(len, places.values()), default=0)
        whole = [r for r in ran if len(places[r]) == most]
        return min(whole, key=lambda r: sum(places[r]), default=None)
