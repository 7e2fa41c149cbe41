"""Who answers for a sentence: the paper's own tables, or our runs. Both are asked the same questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from emi_bench import reference
from emi_bench.report.axes import ACCURACY, TABLE_METRICS, Metric, Row, Setting
from emi_bench.report.cells import TableCell
from emi_bench.report.efficiency import cost_cell, efficiency_setting
from emi_bench.report.grid import Grid
from emi_bench.report.statistics import ENOUGH, BySeed, Estimate, combination, independent, known
from emi_bench.report.studies import STUDIES, Study, is_study_setting, published


@dataclass(frozen=True)
class Answer:
    """A value: a printed number with its spread (NaN where none was printed), or our runs by seed."""

    mean: float
    std: float = float("nan")
    by_seed: BySeed | None = None


#: Study's name and the point in it: {"ablation": [1, 1, 0, 0]}.
PointRef = Mapping[str, Any]
Term = tuple[float, Answer]


def _point(name: str, at: Any) -> tuple[Any, ...]:
    return tuple(STUDIES[name].values(v) for v in (at if isinstance(at, list) else [at]))


def point(answers: Answers, ref: PointRef) -> Answer | None:
    """The value at one point of a study."""
    ((name, at),) = ref.items()
    return answers.points(name).get(_point(name, at))


class Printed:
    """The paper's own tables. Numbers are as they stand: no interval around them."""

    def __init__(self) -> None:
        rows = reference.values(source=reference.PAPER).to_dict("records")
        self._cells = {
            (r["method"], r["metric"], r["dataset"], int(r["memory"])): Answer(float(r["mean"]), float(r["std"]))
            for r in rows
        }

    def value(self, method: str, metric: str, dataset: str, memory: int) -> Answer | None:
        return self._cells.get((method, metric, dataset, memory))

    def cost(self, method: str, metric: str) -> Answer | None:
        frame = reference.studies("table6")
        hit = frame[(frame["method"] == method) & (frame["metric"] == metric)]
        return Answer(float(hit["mean"].iloc[0])) if len(hit) else None

    def points(self, name: str) -> dict[tuple[Any, ...], Answer]:
        return {p: Answer(v) for p, v in published(STUDIES[name]).items()}

    def curve(self, method: str, dataset: str, memory: int) -> Sequence[Answer] | None:
        return None

    def sum(self, terms: Sequence[Term]) -> Estimate:
        return Estimate(sum(w * a.mean for w, a in terms), 0.0, 1.0, 1)


@cache
def the_paper() -> Printed:
    """Read once: every number of every sentence asks it."""
    return Printed()


class Ours:
    """Our runs: differences over the seeds that are shared, with their uncertainty."""

    def __init__(
        self, grid: Grid, studies: Mapping[str, Sequence[Study]], columns: Sequence[Setting] | None = None
    ) -> None:
        """`columns`: those that stand for the paper's; its own without."""
        self._grid = grid
        self._settings = {(s.dataset, s.memory): s for s in columns or grid.paper_settings}
        self._studies = {
            name: next((s for s in found if (s.setting in columns if columns else is_study_setting(s.setting))), None)
            for name, found in studies.items()
        }
        self._efficiency = efficiency_setting(grid)

    def _answer(self, cell: TableCell, metric: Metric) -> Answer | None:
        values = cell.by_seed(metric)
        if len(values) < ENOUGH:
            return None
        sample = np.array(list(values.values()))
        return Answer(float(sample.mean()), float(sample.std(ddof=1)), values)

    def value(self, method: str, metric: str, dataset: str, memory: int) -> Answer | None:
        setting = self._settings.get((dataset, memory))
        return self._answer(self._grid.cell(Row(method), setting), TABLE_METRICS[metric]) if setting else None

    def cost(self, method: str, metric: str) -> Answer | None:
        at = self._efficiency
        return self._answer(cost_cell(self._grid, Row(method), at), TABLE_METRICS[metric]) if at else None

    def points(self, name: str) -> dict[tuple[Any, ...], Answer]:
        found = self._studies.get(name)
        answers = {p: self._answer(c, ACCURACY) for p, c in found.points.items()} if found else {}
        return {p: a for p, a in answers.items() if a is not None}

    def curve(self, method: str, dataset: str, memory: int) -> Sequence[Answer] | None:
        setting = self._settings.get((dataset, memory))
        cell = self._grid.cell(Row(method), setting) if setting else None
        if cell is None or cell.n < ENOUGH:
            return None
        seeds = [r.seed for r in cell.runs]
        return [
            Answer(float(after.mean()), float(after.std(ddof=1)), dict(zip(seeds, map(float, after), strict=True)))
            for after in cell.curves().T
        ]

    def sum(self, terms: Sequence[Term]) -> Estimate:
        return combination([(w, a.by_seed or {}) for w, a in terms])


Answers = Printed | Ours  #: whom a check may ask; None from them means: not there, or not enough runs


def printed_uncertainty(terms: Sequence[Term], ours: Sequence[Term]) -> Estimate:
    """Of a number that the paper states: that of its cells' ten runs; without a printed spread ours stands in."""
    runs = int(reference.settings()["runs"])
    pairs = zip(terms, ours, strict=True)
    stds = [(w, a.mean, a.std if a.std == a.std else o.std) for (w, a), (_, o) in pairs]
    return independent([(w, known(mean, std, runs)) for w, mean, std in stds])
