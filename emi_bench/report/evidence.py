"""What a report says in numbers, each computed once and shared by tables, figures and page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy import stats

from emi_bench.report.axes import ACCURACY, FORGETTING, FORGETTINGS, Metric, Row, Setting, Spread, papers_bounds
from emi_bench.report.cells import TableCell
from emi_bench.report.checks import Records, as_records
from emi_bench.report.compare import Comparison, comparisons
from emi_bench.report.grid import Grid
from emi_bench.report.model import Record, Table
from emi_bench.report.options import ReportOptions
from emi_bench.report.prediction import Panel, panels
from emi_bench.report.sentences import Checked, check_sentences
from emi_bench.report.statistics import ENOUGH, NAN, Contrast, Estimate, contrast, estimate, holm
from emi_bench.report.studies import STUDIES, Study, all_studies
from emi_bench.report.tables import efficiency_tables, main_tables, study_tables, variants_table

#: run id -> the features' frame (split, label, task, f0 ...), or None where none were kept.
FeatureFinder = Callable[[str], pd.DataFrame | None]
#: run id -> its accuracy while the stream ran (`run.result.CURVE`), or None where nobody watched.
CurveFinder = Callable[[str], pd.DataFrame | None]


@dataclass(frozen=True)
class Difference:
    """`ours` minus `other` in one column; `p_holm` is adjusted over the column's competitors."""

    ours: Row
    other: Row
    setting: Setting
    found: Contrast
    p_holm: float

    @property
    def record(self) -> Record:
        f, s = self.found, self.setting
        return {"dataset": s.dataset, "memory": s.memory, "ours": self.ours.title, "other": self.other.title, "n": f.n,
                "paired": f.paired, "mean": f.mean, "low": f.low, "high": f.high, "wins": f.wins,
                "improvement": f.improvement, "p": f.p, "p_holm": self.p_holm}  # fmt: skip


@dataclass(frozen=True)
class Overall:
    """One row over several columns: `score` is the way from fine-tune (0) to offline (100) that it goes, averaged over
    the columns, with its interval over the seeds; NaN where a column lacks a bound. And its mean rank."""

    row: Row
    score: Estimate
    rank: float
    n_runs: int
    n_settings: int


@dataclass(eq=False)
class Evidence:
    """The grid, how its numbers are to be printed, and what follows from them."""

    grid: Grid
    spread: Spread = "std"
    forgetting: Metric = FORGETTING
    features: FeatureFinder | None = None
    curves: CurveFinder | None = None

    @cached_property
    def watched(self) -> dict[Setting, dict[Row, list[pd.DataFrame]]]:
        """The points of every run that was watched while its stream ran."""
        found: dict[Setting, dict[Row, list[pd.DataFrame]]] = {}
        if self.curves is None:
            return found
        for setting in self.grid.settings:
            for row in self.grid.rows([setting], variants=True):
                points = [p for run in self.grid.cell(row, setting).runs if (p := self.curves(run.run_id)) is not None]
                if points:
                    found.setdefault(setting, {})[row] = points
        return found

    @cached_property
    def studies(self) -> dict[str, list[Study]]:
        return {name: all_studies(self.grid, about) for name, about in STUDIES.items()}

    @cached_property
    def compared(self) -> list[Comparison]:
        return comparisons(self.grid, self.studies)

    @cached_property
    def sentences(self) -> list[Checked]:
        return check_sentences(self.grid, self.studies) if self.grid.paper_settings else []

    @cached_property
    def proxy(self) -> list[Panel]:
        """The paper's columns on less data, beside the published ones."""
        return list(panels(self.grid))

    @cached_property
    def main(self) -> dict[bool, dict[Metric, Table]]:
        """The tables of methods by settings: of the paper's grid (True) and of other settings."""
        return {paper: found for paper in (True, False) if (found := main_tables(self.grid, self.spread, paper))}

    @cached_property
    def tables(self) -> list[Table]:
        """Every table the store can serve, the paper's own first."""
        main = [
            table
            for found in self.main.values()
            for metric, table in found.items()
            if table.kind != "forgetting" or metric is self.forgetting
        ]
        studies = [s for found in self.studies.values() for s in found]
        rest = [*variants_table(self.grid, self.spread), *study_tables(studies, self.spread)]
        return sorted([*main, *rest, *efficiency_tables(self.grid, self.spread)], key=lambda t: t.number or 99)

    @cached_property
    def differences(self) -> list[Difference]:
        """Ours against every other competitor in every column."""
        ours = self.grid.focus
        return differences(self.grid, self.grid.settings, ACCURACY, ours) if ours else []

    def against_default(self, cell: TableCell, row: Row, setting: Setting) -> Contrast | None:
        """A cell's accuracies minus those of the method's default in this column (of an older version, minus those of
        the same variant's newest), spare seeds too; None where there are none."""
        default = self.grid.cell(self.grid.older.get(row, Row(row.method)), setting, spare=True)
        return contrast(cell.by_seed(ACCURACY), default.by_seed(ACCURACY)) if default.n else None

    @cached_property
    def overall(self) -> dict[str, list[Overall]]:
        """Over the paper's columns, and over the others."""
        groups = {"paper": self.grid.paper_settings, "other": self.grid.other_settings}
        return {name: found for name, s in groups.items() if (found := overall(self.grid, s, ACCURACY))}


def evidence_of(
    records: Records, options: ReportOptions, features: FeatureFinder | None = None, curves: CurveFinder | None = None
) -> Evidence:
    """What a store's runs say, as far as the options ask for it."""
    rows = as_records(records)
    grid = Grid(rows, options.scope({str(r["method"]) for r in rows}))
    return Evidence(grid, options.spread, FORGETTINGS[options.forgetting], features, curves)


def differences(grid: Grid, settings: Sequence[Setting], metric: Metric, ours: Row) -> list[Difference]:
    """`ours` against every other competitor in every column, Holm over the competitors of a column."""
    out: list[Difference] = []
    for setting in settings:
        mine = grid.cell(ours, setting).by_seed(metric)
        rows = [r for r in grid.rows([setting]) if mine and r != ours and r.role != "bound"]
        found = {
            r: contrast(mine, theirs, metric.higher) for r in rows if (theirs := grid.cell(r, setting).by_seed(metric))
        }
        adjusted = holm([c.p for c in found.values()])
        out += [Difference(ours, r, setting, c, p) for (r, c), p in zip(found.items(), adjusted, strict=True)]
    return out


def overall(grid: Grid, settings: Sequence[Setting], metric: Metric) -> list[Overall]:
    """Rows that ran in every one of the columns (one with gaps stands on other ground), best mean rank first."""
    settings = [s for s in settings if any(r.role != "bound" for r in grid.ran(s))]
    rows = [r for r in grid.rows(settings) if r.role != "bound" and all(grid.cell(r, s).n for s in settings)]
    if not settings or len(rows) < 2:
        return []
    cells = {row: [grid.cell(row, s).by_seed(metric) for s in settings] for row in rows}
    means = np.array([[np.mean(list(c.values())) for c in columns] for columns in cells.values()])
    ranks = stats.rankdata(-means if metric.higher else means, axis=0).mean(axis=1)
    low, high = (
        np.array([x.mean() if len(x := grid.cell(bound, s).sample(metric)) else NAN for s in settings])
        for bound in papers_bounds()
    )
    out = []
    for (row, columns), rank in zip(cells.items(), ranks, strict=True):
        seeds = sorted(set.intersection(*map(set, columns)))
        way = [np.mean((np.array([c[s] for c in columns]) - low) / (high - low)) * 100 for s in seeds]
        score = estimate(way) if len(seeds) >= ENOUGH else Estimate(NAN, NAN, 1.0, len(seeds))
        out.append(Overall(row, score, float(rank), sum(map(len, columns)), len(settings)))
    return sorted(out, key=lambda o: (o.rank, o.row.order))
