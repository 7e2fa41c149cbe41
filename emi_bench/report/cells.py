"""The runs of one cell of a table, and the number that is printed of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from emi_bench import metrics
from emi_bench.report.axes import Metric, Spread
from emi_bench.report.runs import Run
from emi_bench.report.statistics import t_quantile


@dataclass(frozen=True, eq=False)
class TableCell:
    """The runs of one row in one column by seed, how many there should be, and which (`seeds`) if a sweep says so."""

    runs: tuple[Run, ...]
    expected: int
    seeds: frozenset[int] = frozenset()

    @property
    def n(self) -> int:
        return len(self.runs)

    def by_seed(self, metric: Metric) -> dict[int, float]:
        """Seed -> value as printed (percent, ms, GB); runs that do not define the metric are left out."""
        pairs = ((r.seed, r.values[metric.name] * metric.scale) for r in self.runs)
        return {seed: v for seed, v in pairs if not np.isnan(v)}

    def sample(self, metric: Metric) -> NDArray[np.float64]:
        return np.array(list(self.by_seed(metric).values()), dtype=np.float64)

    @cached_property
    def mean_matrix(self) -> NDArray[np.float64]:
        """Mean over the runs, 0-1, (T,T), NaN above the diagonal."""
        return np.asarray(np.mean([r.matrix for r in self.runs], axis=0))

    def curves(self) -> NDArray[np.float64]:
        """Incremental accuracy A_i = mean_{j<=i} a[i][j] of each run, percent: (n, T)."""
        return np.asarray(metrics.incremental_accuracy(np.stack([r.matrix for r in self.runs])) * 100)


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
    factor = {"std": 1.0, "sem": n**-0.5, "ci95": t_quantile(n - 1) * n**-0.5}[spread]
    return float(std * factor)


def summarize(cell: TableCell, metric: Metric, spread: Spread = "std") -> Summary | None:
    """Mean and spread, or None where no run defines the metric."""
    values = cell.sample(metric)
    if not len(values):
        return None
    return Summary(float(values.mean()), spread_of(values, spread), len(values), cell.expected)
