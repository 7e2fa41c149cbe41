"""Intervals and tests: paired over shared seeds where there are any, bootstrap seeded, never a star without its n."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from emi_bench.report.axes import Metric, Row, Setting
from emi_bench.report.grid import Grid

Sample = NDArray[np.float64]
RESAMPLES = 9999
SEED = 20250101
ENOUGH = 3  #: fewer runs make no interval


def mean_interval(values: ArrayLike, level: float = 0.95) -> tuple[float, float]:
    """The t interval of a mean, x ± t_{(1+level)/2, n-1} s/sqrt(n); NaN below three values.

    >>> [round(v, 3) for v in mean_interval([1.0, 2.0, 3.0])]
    [-0.484, 4.484]
    """
    x = np.asarray(values, dtype=np.float64)
    if len(x) < ENOUGH:
        return float("nan"), float("nan")
    half = float(stats.t.ppf((1 + level) / 2, len(x) - 1) * x.std(ddof=1) / len(x) ** 0.5)
    return float(x.mean()) - half, float(x.mean()) + half


def bootstrap_interval(d: Sample) -> tuple[float, float]:
    """BCa 95 % interval of the mean, from a fixed seed; NaN below three values."""
    if len(d) < ENOUGH:
        return float("nan"), float("nan")
    if np.ptp(d) < 1e-12:
        return float(d.mean()), float(d.mean())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rng = np.random.default_rng(SEED)
        got = stats.bootstrap((d,), np.mean, n_resamples=RESAMPLES, method="BCa", random_state=rng).confidence_interval
    if np.isnan(got.low) or np.isnan(got.high):
        # BCa's acceleration is undefined for some tiny samples; the t interval is the wider, safer answer.
        return mean_interval(d)
    return float(got.low), float(got.high)


def unpaired_interval(x: Sample, y: Sample) -> tuple[float, float]:
    """Welch's 95 % interval of mean(x) - mean(y)."""
    if min(len(x), len(y)) < ENOUGH:
        return float("nan"), float("nan")
    if np.ptp(x) < 1e-12 and np.ptp(y) < 1e-12:
        return float(x.mean() - y.mean()), float(x.mean() - y.mean())
    ci = stats.ttest_ind(x, y, equal_var=False).confidence_interval(0.95)
    return float(ci.low), float(ci.high)


def exact_wilcoxon(d: ArrayLike) -> float:
    """Two-sided exact p of the signed-rank test: all 2^n signs of the ranks, ties at their mean rank, zeros dropped.

    >>> exact_wilcoxon([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0])
    0.001953125
    """
    x = np.asarray(d, dtype=np.float64)
    x = x[np.abs(x) > 1e-12]
    if not len(x):
        return 1.0
    ranks = np.rint(2 * stats.rankdata(np.abs(x))).astype(int)  # doubled: mean ranks of ties become whole
    ways = np.ones(1)
    for r in ranks:
        ways = np.convolve(ways, np.concatenate([[1.0], np.zeros(r - 1), [1.0]]))
    total = int(ranks.sum())
    plus = int(ranks[x > 0].sum())
    far = min(plus, total - plus)
    return float(min(1.0, 2 * ways[: far + 1].sum() / ways.sum()))


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment; NaN stays NaN and does not count.

    >>> [round(v, 3) for v in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    real = [(v, i) for i, v in enumerate(p) if v == v]
    out = [float("nan")] * len(p)
    worst = 0.0
    for k, (v, i) in enumerate(sorted(real)):
        worst = max(worst, min(1.0, (len(real) - k) * v))
        out[i] = worst
    return out


def improvement(x: Sample, y: Sample, higher: bool) -> float:
    """P(a run of x beats a run of y) over all pairs, ties half (Agarwal et al. 2021)."""
    diff = x[:, None] - y[None, :]
    wins = (diff > 0) if higher else (diff < 0)
    return float((wins + 0.5 * (diff == 0)).mean())


@dataclass(frozen=True)
class Contrast:
    """x minus y. `paired`: over the `n` shared seeds; else of independent runs (Welch). Intervals are 95 %."""

    n: int
    paired: bool
    mean: float
    low: float
    high: float
    wins: int
    improvement: float
    p: float


@dataclass(frozen=True)
class Difference(Contrast):
    """`ours` minus `other` in one column; `p_holm` is adjusted over the column's competitors."""

    ours: Row
    other: Row
    setting: Setting
    p_holm: float = float("nan")

    @property
    def enough(self) -> bool:
        return self.low == self.low


def contrast(x: Mapping[int, float], y: Mapping[int, float], higher: bool = True) -> Contrast:
    """Two samples by seed. Shared seeds make it paired, if there are two or more."""
    shared = sorted(x.keys() & y.keys())
    xs, ys = (np.array([v[s] for s in sorted(v)], dtype=np.float64) for v in (x, y))
    better = improvement(xs, ys, higher)
    if len(shared) > 1:
        d = np.array([x[s] - y[s] for s in shared])
        low, high = bootstrap_interval(d)
        p = exact_wilcoxon(d) if len(d) >= ENOUGH else float("nan")
        wins = int((d > 0).sum() if higher else (d < 0).sum())
        return Contrast(len(d), True, float(d.mean()), low, high, wins, better, p)
    low, high = unpaired_interval(xs, ys)
    mean = float(xs.mean() - ys.mean())
    return Contrast(min(len(xs), len(ys)), False, mean, low, high, 0, better, float("nan"))


def differences(grid: Grid, settings: Sequence[Setting], metric: Metric, ours: Row) -> list[Difference]:
    """`ours` against every other competitor in every column, Holm over the competitors of a column."""
    out: list[Difference] = []
    for setting in settings:
        mine = grid.cell(ours, setting).by_seed(metric)
        if not mine:
            continue
        column = []
        for row in grid.rows([setting]):
            theirs = grid.cell(row, setting).by_seed(metric)
            if row == ours or row.role == "bound" or not theirs:
                continue
            found = contrast(mine, theirs, metric.higher)
            column.append(Difference(**vars(found), ours=ours, other=row, setting=setting))
        adjusted = holm([d.p for d in column])
        out += [replace(d, p_holm=p) for d, p in zip(column, adjusted, strict=True)]
    return out


@dataclass(frozen=True)
class Overall:
    """One row over several columns: interquartile mean of all its runs with an interval, mean rank, how many runs."""

    row: Row
    iqm: float
    low: float
    high: float
    rank: float
    n_runs: int
    n_settings: int


def overall(grid: Grid, settings: Sequence[Setting], metric: Metric) -> list[Overall]:
    """Rows that ran in every one of the columns (one with gaps stands on other ground), best mean rank first."""
    settings = [s for s in settings if any(grid.cell(r, s).n for r in grid.rows([s]) if r.role != "bound")]
    if not settings:
        return []
    samples: dict[Row, list[Sample]] = {}
    for row in grid.rows(settings):
        columns = [grid.cell(row, s).sample(metric) for s in settings]
        if row.role != "bound" and all(len(c) for c in columns):
            samples[row] = columns
    if len(samples) < 2:
        return []
    means = np.array([[c.mean() for c in columns] for columns in samples.values()])
    ranks = stats.rankdata(-means if metric.higher else means, axis=0).mean(axis=1)
    rng = np.random.default_rng(SEED)
    out = []
    for (row, columns), rank in zip(samples.items(), ranks, strict=True):
        # Stratified: each resample keeps as many runs of every column as there are.
        picks = [c[rng.integers(0, len(c), (2000, len(c)))] for c in columns]
        iqms = stats.trim_mean(np.concatenate(picks, axis=1), 0.25, axis=1)
        low, high = np.percentile(iqms, [2.5, 97.5])
        runs = np.concatenate(columns)
        iqm = float(stats.trim_mean(runs, 0.25))
        out.append(Overall(row, iqm, float(low), float(high), float(rank), len(runs), len(settings)))
    return sorted(out, key=lambda o: (o.rank, o.row.order))


def focus(grid: Grid, metric: Metric) -> Row | None:
    """Whom the comparisons are about: EMI where it ran; else the one method of the user's own; else the best ranked."""
    ran = {r for s in grid.settings for r in grid.ran(s)}
    rows = [r for r in grid.rows(grid.settings) if r.role != "bound" and r in ran]
    ours = [r for r in rows if r.role == "ours"]
    own = [r for r in rows if r.order[0] == Row("\0").order[0]]
    if ours:
        return ours[0]
    if len(own) == 1:
        return own[0]
    ranked = overall(grid, grid.settings, metric)
    return ranked[0].row if ranked else rows[0] if rows else None
