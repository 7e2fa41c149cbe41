"""Does a proxy predict the paper? Its ranking against the published one, with what the few seeds leave open.

A proxy is a column of the paper on less data (fewer pixels, images or channels). Its accuracies are not the paper's and
are not meant to be; what it may predict is an order. So everything here is about order and direction: rank correlation,
pairs in the wrong order, the sign of each step of the ablation (which sentences it can speak to: `scope`).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from emi_bench import reference
from emi_bench.report.axes import papers_rows
from emi_bench.report.studies import PARTS

Array = NDArray[np.float64]
#: method -> seed -> value in percent
Samples = Mapping[str, Mapping[int, float]]
#: method -> published mean and sample standard deviation in percent, and the number of runs
Published = Mapping[str, "Printed"]
Flags = tuple[bool, ...]

RESAMPLES = 4000
SEED = 20250101
ENOUGH = 3  #: fewer shared seeds make no interval
REDUCTION = ("image_size", "train_per_class", "test_per_class")


@dataclass(frozen=True)
class Printed:
    """A published cell, in percent."""

    mean: float
    std: float = float("nan")
    n: int = 0


@dataclass(frozen=True)
class Correlation:
    """Of the methods' means with the published ones. The 95 % interval is over seeds and methods, drawn again."""

    name: Literal["Spearman", "Kendall"]
    value: float
    low: float
    high: float
    n_methods: int
    n_seeds: int  #: shared by all methods


@dataclass(frozen=True)
class Pair:
    """Two methods that the proxy orders otherwise than the paper. Gaps are `better` minus `worse`, by the paper's order
    and counted so that the paper's is positive; `low` and `high` are the 95 % interval of ours over shared seeds."""

    better: str
    worse: str
    printed: float
    ours: float
    low: float
    high: float
    n: int

    @property
    def beyond(self) -> bool | None:
        """Whether the seeds leave no doubt that it is reversed here; None where there are too few."""
        return None if np.isnan(self.high) else self.high < 0


@dataclass(frozen=True)
class Order:
    """All pairs of methods that the paper tells apart."""

    same: int
    tied: int  #: pairs with one printed value: the paper has no order for them
    reversed: tuple[Pair, ...]  #: the largest first


@dataclass(frozen=True)
class Step:
    """One part switched on: the change of accuracy in points, in the paper and here."""

    before: Flags
    after: Flags
    printed: float
    ours: float
    low: float
    high: float
    n: int

    @property
    def part(self) -> str:
        return next(k for k, b, a in zip(PARTS.keys, self.before, self.after, strict=True) if a and not b)

    @property
    def verdict(self) -> Literal["same direction", "opposite direction", "undecided", "too few seeds"]:
        """By the interval: a step is decided where it excludes zero."""
        if np.isnan(self.low):
            return "too few seeds"
        if self.low <= 0 <= self.high:
            return "undecided"
        return "same direction" if np.sign(self.ours) == np.sign(self.printed) else "opposite direction"


# --- what is compared ------------------------------------------------------------------------------------------------


def is_proxy(protocol: Mapping[str, Any]) -> bool:
    """Whether a protocol gives a method less than the paper does: fewer pixels, images or channels.

    >>> is_proxy({"image_size": 16, "width": 20}), is_proxy({"width": 8}), is_proxy({"width": 64})
    (True, True, False)
    """
    width = reference.settings()["protocol"]["width"]
    return any(protocol.get(k) is not None for k in REDUCTION) or protocol.get("width", width) < width


def published(metric: str, dataset: str, n_tasks: int, memory: int) -> dict[str, Printed]:
    """The paper's column of the same data set, number of tasks and memory; empty where it has none."""
    v = reference.values(metric, reference.PAPER)
    v = v[(v["dataset"] == dataset) & (v["n_tasks"] == n_tasks) & (v["memory"] == memory)]
    return {
        m: Printed(float(a), float(s), int(n)) for m, a, s, n in zip(v.method, v["mean"], v["std"], v.n, strict=True)
    }


def competitors(ours: Samples, paper: Published) -> list[str]:
    """Methods that both know, without the two bounds, which any ranking gets right."""
    names = [row.method for row in papers_rows() if row.role != "bound"]
    return [m for m in names if m in ours and m in paper]


# --- how well it predicts --------------------------------------------------------------------------------------------


def correlations(ours: Samples, paper: Published, methods: Sequence[str] | None = None) -> list[Correlation]:
    """Spearman's and Kendall's (tau-b) over the methods that both know; none below three methods.

    Seeds are shared by all methods (class order and stream are), so a resample draws seeds for all of them at once and
    then methods. The paper's numbers are taken as they stand.
    """
    names = list(methods) if methods is not None else competitors(ours, paper)
    shared = sorted(set.intersection(*(set(ours[m]) for m in names))) if names else []
    if len(names) < 3 or not shared:
        return []
    theirs = np.array([paper[m].mean for m in names])
    table = np.array([[ours[m][s] for s in shared] for m in names])  # methods x seeds
    rng = np.random.default_rng(SEED)
    seeds = rng.integers(0, len(shared), (RESAMPLES, len(shared)))
    chosen = rng.integers(0, len(names), (RESAMPLES, len(names)))
    means = np.take_along_axis(table[:, seeds].mean(axis=2).T, chosen, axis=1)
    out = []
    for name, coefficient in (("Spearman", _spearman), ("Kendall", _kendall)):
        value = coefficient(table.mean(axis=1)[None], theirs[None])[0]
        drawn = coefficient(means, theirs[chosen])
        drawn = drawn[~np.isnan(drawn)]  # a resample of one method again and again has no order
        low, high = np.percentile(drawn, [2.5, 97.5]) if len(drawn) else (np.nan, np.nan)
        out.append(Correlation(name, float(value), float(low), float(high), len(names), len(shared)))  # type: ignore[arg-type]
    return out


def _spearman(x: Array, y: Array) -> Array:
    """Row by row; NaN where a row is constant."""
    a, b = stats.rankdata(x, axis=1), stats.rankdata(y, axis=1)
    a, b = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Array = (a * b).sum(axis=1) / np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))
    return found


def _kendall(x: Array, y: Array) -> Array:
    """tau-b, row by row; NaN where a row is constant."""
    i, j = np.triu_indices(x.shape[1], 1)
    a, b = np.sign(x[:, i] - x[:, j]), np.sign(y[:, i] - y[:, j])
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Array = (a * b).sum(axis=1) / np.sqrt((a != 0).sum(axis=1) * (b != 0).sum(axis=1))
    return found


def paired_interval(x: Mapping[int, float], y: Mapping[int, float]) -> tuple[float, float, float, int]:
    """Mean of x - y over shared seeds, its 95 % t interval (NaN below three seeds), and how many seeds.

    >>> [round(v, 2) for v in paired_interval({0: 3.0, 1: 5.0, 2: 4.0}, {0: 2.0, 1: 3.0, 2: 1.0})]
    [2.0, -0.48, 4.48, 3]
    """
    shared = sorted(x.keys() & y.keys())
    if not shared:
        return float("nan"), float("nan"), float("nan"), 0
    d = np.array([x[s] - y[s] for s in shared])
    if len(d) < ENOUGH:
        return float(d.mean()), float("nan"), float("nan"), len(d)
    half = float(stats.t.ppf(0.975, len(d) - 1) * d.std(ddof=1) / len(d) ** 0.5)
    return float(d.mean()), float(d.mean()) - half, float(d.mean()) + half, len(d)


def order(ours: Samples, paper: Published, *, higher: bool) -> Order:
    """Every pair of competitors; `higher` says which way is better."""
    same, tied, wrong = 0, 0, []
    for a, b in itertools.combinations(competitors(ours, paper), 2):
        gap = (paper[a].mean - paper[b].mean) * (1 if higher else -1)
        if gap == 0:
            tied += 1
            continue
        better, worse = (a, b) if gap > 0 else (b, a)
        mean, low, high, n = paired_interval(ours[better], ours[worse])
        if not higher:
            mean, low, high = -mean, -high, -low
        if not n:
            continue
        if mean < 0:
            wrong.append(Pair(better, worse, abs(gap), mean, low, high, n))
        else:
            same += 1
    return Order(same, tied, tuple(sorted(wrong, key=lambda p: (p.ours, p.better, p.worse))))


def steps(ours: Mapping[Flags, Mapping[int, float]], paper: Mapping[Flags, float]) -> list[Step]:
    """Every pair of rows of the ablation that differ in one part, the part off and then on."""
    found = []
    for before, after in itertools.permutations(paper, 2):
        switched = [(b, a) for b, a in zip(before, after, strict=True) if b != a]
        if switched != [(False, True)] or before not in ours or after not in ours:
            continue
        mean, low, high, n = paired_interval(ours[after], ours[before])
        if n:
            found.append(Step(before, after, paper[after] - paper[before], mean, low, high, n))
    return found
