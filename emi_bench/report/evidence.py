"""Where a claim's numbers come from: the paper's tables, or our runs. Both answer the same questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from emi_bench import reference
from emi_bench.report.axes import ACCURACY, FORGETTING, MEMORY, TIME, Metric, Row, Setting
from emi_bench.report.efficiency import cost_cell, efficiency_setting
from emi_bench.report.grid import Cell, Grid
from emi_bench.report.statistics import ENOUGH, contrast, mean_interval
from emi_bench.report.studies import ALPHAS, FLAGS, PROTOTYPES, is_study_setting, published, study

METRICS: dict[str, Metric] = {m.name: m for m in (ACCURACY, FORGETTING, TIME)} | {"memory_gb": MEMORY}
STUDIES = {"alpha": ALPHAS, "prototypes": PROTOTYPES, "flags": FLAGS, "n_proto": PROTOTYPES}
COINCIDENCE = 2  #: more equal printed means of two independent rows than this are no coincidence


@dataclass(frozen=True)
class Estimate:
    """A value with the runs behind it (none for a printed number)."""

    mean: float
    by_seed: Mapping[int, float] | None = None


@dataclass(frozen=True)
class Gap:
    """A difference of two estimates; `low` = `high` = `mean` for printed numbers."""

    mean: float
    low: float
    high: float


class Evidence(Protocol):
    """What a check may ask. None means: not there, or not enough runs."""

    def value(self, method: str, metric: str, dataset: str, memory: int) -> Estimate | None: ...
    def cost(self, method: str, metric: str) -> Estimate | None: ...
    def points(self, name: str) -> dict[tuple[Any, ...], Estimate]: ...
    def curve(self, method: str, dataset: str, memory: int) -> Sequence[float] | None: ...
    def gap(self, a: Estimate, b: Estimate) -> Gap: ...
    def confirms_gap(self, printed: float, gap: Gap) -> bool: ...
    def confirms_value(self, printed: float, value: Estimate) -> bool: ...


def competitors() -> list[str]:
    """Everyone a claim may compare with: the paper's methods without the bounds."""
    return [m for m, info in reference.methods().items() if info.role != "bound"]


class Printed:
    """The paper's own tables. A number confirms a sentence if it is the same to the printed decimal."""

    def __init__(self) -> None:
        frame = reference.values(source=reference.PAPER)
        self._cells = {
            (r["method"], r["metric"], r["dataset"], int(r["memory"])): float(r["mean"])
            for r in frame.to_dict("records")
        }

    def value(self, method: str, metric: str, dataset: str, memory: int) -> Estimate | None:
        mean = self._cells.get((method, metric, dataset, memory))
        return None if mean is None else Estimate(mean)

    def cost(self, method: str, metric: str) -> Estimate | None:
        frame = reference.studies("table6")
        hit = frame[(frame["method"] == method) & (frame["metric"] == metric)]
        return Estimate(float(hit["mean"].iloc[0])) if len(hit) else None

    def points(self, name: str) -> dict[tuple[Any, ...], Estimate]:
        return {p: Estimate(v) for p, v in published(STUDIES[name]).items()}

    def curve(self, method: str, dataset: str, memory: int) -> Sequence[float] | None:
        return None

    def gap(self, a: Estimate, b: Estimate) -> Gap:
        d = a.mean - b.mean
        return Gap(d, d, d)

    def confirms_gap(self, printed: float, gap: Gap) -> bool:
        return abs(gap.mean - printed) < 0.051

    def confirms_value(self, printed: float, value: Estimate) -> bool:
        return abs(value.mean - printed) < 0.001


class Ours:
    """Our runs. A difference confirms a sentence if its 95 % interval lies on the sentence's side of zero; a value, if
    the printed one lies in the 95 % interval of our mean."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._settings: dict[tuple[str, int], Setting] = {(s.dataset, s.memory): s for s in grid.paper_settings}

    def _estimate(self, cell: Cell, metric: Metric) -> Estimate | None:
        values = cell.by_seed(metric)
        return Estimate(float(np.mean(list(values.values()))), values) if len(values) >= ENOUGH else None

    def value(self, method: str, metric: str, dataset: str, memory: int) -> Estimate | None:
        setting = self._settings.get((dataset, memory))
        return self._estimate(self._grid.cell(Row(method), setting), METRICS[metric]) if setting else None

    def cost(self, method: str, metric: str) -> Estimate | None:
        setting = efficiency_setting(self._grid)
        return self._estimate(cost_cell(self._grid, Row(method), setting), METRICS[metric]) if setting else None

    def points(self, name: str) -> dict[tuple[Any, ...], Estimate]:
        setting = next((s for s in self._grid.paper_settings if is_study_setting(s)), None)
        found = study(self._grid, setting, STUDIES[name]) if setting else None
        estimates = {p: self._estimate(c, ACCURACY) for p, c in found.points.items()} if found else {}
        return {p: e for p, e in estimates.items() if e is not None}

    def curve(self, method: str, dataset: str, memory: int) -> Sequence[float] | None:
        setting = self._settings.get((dataset, memory))
        cell = self._grid.cell(Row(method), setting) if setting else None
        return None if cell is None or cell.n < ENOUGH else [float(v) for v in cell.curves().mean(axis=0)]

    def gap(self, a: Estimate, b: Estimate) -> Gap:
        assert a.by_seed is not None
        assert b.by_seed is not None
        d = contrast(a.by_seed, b.by_seed)
        return Gap(d.mean, d.low, d.high)

    def confirms_gap(self, printed: float, gap: Gap) -> bool:
        return gap.low > 0 if printed > 0 else gap.high < 0

    def confirms_value(self, printed: float, value: Estimate) -> bool:
        assert value.by_seed is not None
        low, high = mean_interval(list(value.by_seed.values()))
        return low - 0.05 <= printed <= high + 0.05
