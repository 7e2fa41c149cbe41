"""The grid behind every table and figure: the runs of each cell, by row (method) and column (setting)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from emi_bench import reference
from emi_bench.report.axes import Metric, Protocol, Row, Setting, Spread, is_paper_setting, odd_protocol
from emi_bench.report.checks import few, read_runs
from emi_bench.report.planned import Planned
from emi_bench.report.runs import Note, Run

#: The paper's seeds.
TEN = frozenset(range(int(reference.settings()["runs"])))


@dataclass(frozen=True, eq=False)
class Cell:
    """The runs of one row in one column, by seed, and how many there should be."""

    runs: tuple[Run, ...]
    expected: int

    @property
    def n(self) -> int:
        return len(self.runs)

    def by_seed(self, metric: Metric) -> dict[int, float]:
        """Seed -> value as printed (percent, ms, GB); runs that do not define the metric are left out."""
        pairs = ((r.seed, r.values[metric.name] * metric.scale) for r in self.runs)
        return {seed: v for seed, v in pairs if not np.isnan(v)}

    def sample(self, metric: Metric) -> NDArray[np.float64]:
        return np.array(list(self.by_seed(metric).values()), dtype=np.float64)

    def curves(self) -> NDArray[np.float64]:
        """Incremental accuracy A_i = mean_{j<=i} a[i][j] of each run, percent: (n, T)."""
        matrices = np.stack([r.matrix for r in self.runs])
        t = matrices.shape[1]
        below = np.tril(np.ones((t, t), dtype=bool))
        return np.asarray(np.where(below, matrices, 0).sum(axis=2) / np.arange(1, t + 1) * 100)


@dataclass(frozen=True)
class Summary:
    """A printed number: mean and spread of n runs of `expected`. `spread` is NaN for one run."""

    mean: float
    spread: float
    n: int
    expected: int

    @property
    def partial(self) -> bool:
        return 0 < self.n < self.expected


def spread_of(values: NDArray[np.float64], spread: Spread) -> float:
    """What stands after the ±; NaN for one value.

    >>> [round(spread_of(np.array([1.0, 2.0, 4.0]), s), 4) for s in ("std", "sem", "ci95")]
    [1.5275, 0.8819, 3.7946]
    """
    n = len(values)
    if n < 2:
        return float("nan")
    std = float(values.std(ddof=1))
    factor = {"std": 1.0, "sem": n**-0.5, "ci95": float(stats.t.ppf(0.975, n - 1)) * n**-0.5}[spread]
    return float(std * factor)


def summarize(cell: Cell, metric: Metric, spread: Spread = "std") -> Summary | None:
    """Mean and spread, or None where no run defines the metric."""
    values = cell.sample(metric)
    if not len(values):
        return None
    return Summary(float(values.mean()), spread_of(values, spread), len(values), cell.expected)


class Grid:
    """All trusted runs, by row and column.

    `planned`: the sweeps the grid is about; their methods and memories have a row and a column also before they have
    run, and a complete cell has as many runs as its own sweeps ask for. Without sweeps these are the paper's ten in its
    own columns, else the most that any cell of the data set has.
    """

    def __init__(self, frame: pd.DataFrame, planned: Planned | None = None) -> None:
        self._planned = planned or Planned()
        self.n_stored = len(frame)  #: also those that are not of the sweeps
        self.runs: list[Run]
        self.notes: list[Note]
        self.runs, self.notes = read_runs(frame, self._planned.wants)
        self._sources = {r.dataset: r.source for r in self.runs}
        self._cells: dict[tuple[Row, Setting], list[Run]] = defaultdict(list)
        for r in self.runs:
            setting = Setting(r.dataset, r.n_tasks, r.memory, r.protocol)
            self._cells[Row(r.method, r.variant), setting].append(r)
        self._asked: dict[tuple[Row, Setting], list[frozenset[int]]] = {}
        self._say_protocols()
        self._say_spare()

    @cached_property
    def _main_seeds(self) -> frozenset[int]:
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
        protocols: dict[str, set[Protocol]] = defaultdict(set)
        for s in self.settings:
            protocols[s.dataset].add(s.protocol)
        several = sorted(d for d, p in protocols.items() if len(p) > 1)
        if several:
            text = f"runs under several protocols, shown in columns of their own: {', '.join(several)}"
            self.notes.append(Note("protocol", text))

    @cached_property
    def settings(self) -> list[Setting]:
        """Columns that exist, the paper's first. Memory-free runs make a column only where nothing else does."""
        with_memory = {s for row, s in self._cells if row.uses_memory}
        covered = {(s.dataset, s.n_tasks) for s in with_memory}
        alone = {s for row, s in self._cells if not row.uses_memory and (s.dataset, s.n_tasks) not in covered}
        known = list(reference.settings()["datasets"])

        def order(s: Setting) -> tuple[Any, ...]:
            place = known.index(s.dataset) if s.dataset in known else len(known)
            odd = odd_protocol(s.protocol)
            return (place, s.dataset, s.n_tasks, len(odd), str(sorted(odd.items())), s.memory)

        planned = {replace(s, memory=m) for s in with_memory for m in self._planned.memories(s, self._source(s))}
        return sorted(with_memory | alone | planned, key=order)

    @cached_property
    def paper_settings(self) -> list[Setting]:
        """The paper's nine columns, whole, as soon as the store holds a run of one; else none."""
        mine = [s for s in self.settings if is_paper_setting(s)]
        if not mine:
            return []
        have = {(s.dataset, s.memory): s for s in reversed(mine)}
        return [
            have.get((d, m), Setting(d, v["n_tasks"], m, mine[0].protocol))
            for d, v in reference.settings()["datasets"].items()
            for m in v["memories"]
        ]

    @cached_property
    def other_settings(self) -> list[Setting]:
        """Every column that is not one of the paper's nine."""
        return [s for s in self.settings if s not in self.paper_settings]

    def cell(self, row: Row, setting: Setting, spare: bool = False) -> Cell:
        """The runs of a cell, maybe none. Runs of a memory-free method serve every memory of their data set.

        In the paper's columns the default runs are those of its ten seeds (of the sweeps that have them); `spare` adds
        the seeds that other sweeps used, against which their variants are paired.
        """
        runs = self._cells.get((row, setting), [])
        if not runs and not row.uses_memory:
            runs = self._memory_free(row, setting)
        seeds = self._seeds(row, setting, runs, spare)
        if seeds:
            runs = [r for r in runs if r.seed in seeds]
        expected = len(seeds) if self._planned.parts and seeds else self.expected(setting)
        return Cell(tuple(sorted(runs, key=lambda r: r.seed)), expected)

    def _seeds(self, row: Row, setting: Setting, runs: list[Run], spare: bool) -> frozenset[int]:
        """The seeds that count in a cell; none where all do."""
        apart = not spare and not row.variant and is_paper_setting(setting)
        if not self._planned.parts:
            return self._main_seeds if apart else frozenset()
        key = (row, setting)
        if key not in self._asked:
            empty = self._planned.seeds_at(row.method, setting, self._source(setting))
            self._asked[key] = self._planned.seeds(runs) if runs else empty
        asked = self._asked[key]
        main = [seeds for seeds in asked if seeds & TEN] if apart else []
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
        idle = {"replay_batch", "reservoir"} | ({"batch"} if row.method == "offline" else set())
        wanted = {k: v for k, v in setting.protocol if k not in idle}
        same = [runs for p, runs in fits.items() if {k: v for k, v in p if k not in idle} == wanted]
        return same[0] if len(same) == 1 else []

    def expected(self, setting: Setting) -> int:
        """Runs of a complete cell in this column, where no sweep says it."""
        if is_paper_setting(setting):
            return int(reference.settings()["runs"])
        return self._most.get((setting.dataset, setting.n_tasks, setting.protocol), 0)

    @cached_property
    def _most(self) -> dict[tuple[str, int, Protocol], int]:
        most: dict[tuple[str, int, Protocol], int] = defaultdict(int)
        for (_, s), runs in self._cells.items():
            key = (s.dataset, s.n_tasks, s.protocol)
            most[key] = max(most[key], len(runs))
        return most

    def rows(self, settings: Sequence[Setting], whole: bool = False) -> list[Row]:
        """The rows of a table over these columns; `whole` adds the paper's methods that have not run.

        A variant gets a row only where its method has no default run in any of the columns: studies of one method
        have tables of their own.
        """
        here = {row for row in self._known_rows if any(self.cell(row, s).n for s in settings)}
        default = {row.method for row in here if not row.variant}
        shown = {row for row in here if not row.variant or row.method not in default}
        planned = dict.fromkeys(m for s in settings for m in self._planned.methods(s, self._source(s)))
        shown |= {Row(m) for m in planned if m not in {row.method for row in shown}}
        if whole:
            shown |= {Row(m) for m in reference.methods()}
        return sorted(shown, key=lambda row: row.order)

    def joint(self, row: Row, setting: Setting) -> bool:
        """Whether all tasks are learned together here: no curve, no matrix, no step to compare with others'."""
        runs = self.cell(row, setting).runs
        return all(r.joint for r in runs) if runs else row.method == "offline"

    def ran(self, setting: Setting) -> list[Row]:
        """The rows of a column that have runs in it."""
        return [row for row in self.rows([setting]) if self.cell(row, setting).n]

    @cached_property
    def _known_rows(self) -> set[Row]:
        return {row for row, _ in self._cells}

    def variants(self, setting: Setting) -> list[Row]:
        """Named changes of a method's constants that ran in this column."""
        return sorted((r for r, s in self._cells if s == setting and r.variant), key=lambda r: r.order)
