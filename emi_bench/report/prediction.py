"""Does a proxy predict the paper? Its ranking against the published one, with what the few seeds leave open.

A proxy is a column of the paper on less data (fewer pixels, images or channels). Its accuracies are not the paper's and
are not meant to be; what it may predict is an order. So everything here is about order and direction: rank correlation,
pairs in the wrong order, the sign of each step of the ablation (which sentences it can speak to: `sentences.scope`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from emi_bench import reference
from emi_bench.report.axes import ACCURACY, FORGETTING, Metric, Row, Setting, competitors
from emi_bench.report.grid import Grid
from emi_bench.report.statistics import NAN, BySeed, Estimate, combination, holm
from emi_bench.report.studies import PARTS

Array = NDArray[np.float64]
Samples = Mapping[str, BySeed]  #: by method, in percent
Published = Mapping[str, "PublishedValue"]  #: by method
Flags = tuple[bool, ...]

RESAMPLES = 4000
SEED = 20250101
REDUCTION = ("image_size", "train_per_class", "test_per_class")
FEWEST = 3  #: methods: below, an order says nothing


class PublishedValue(NamedTuple):
    """A published cell, in percent."""

    mean: float
    std: float = NAN
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
    and counted so that the paper's is positive."""

    better: str
    worse: str
    printed: float
    gap: Estimate

    @property
    def beyond(self) -> bool | None:
        """Whether the seeds leave no doubt that it is reversed here; None where there are too few."""
        return self.gap.high < 0 if self.gap.enough else None


@dataclass(frozen=True)
class Order:
    """All pairs of methods that the paper tells apart."""

    same: int
    tied: int  #: pairs with one printed value: the paper has no order for them
    reversed: tuple[Pair, ...]  #: the largest first
    certain: int  #: of the reversed ones, those that the seeds still decide when adjusted (Holm) for all pairs


@dataclass(frozen=True)
class Step:
    """One part switched on: the change of accuracy in points, in the paper and here."""

    before: Flags
    after: Flags
    printed: float
    gap: Estimate

    @property
    def part(self) -> str:
        return next(k for k, b, a in zip(PARTS.keys, self.before, self.after, strict=True) if a and not b)

    @property
    def direction(self) -> Literal["the paper's", "the other way"]:
        return "the paper's" if np.sign(self.gap.mean) == np.sign(self.printed) else "the other way"

    @property
    def decided(self) -> bool | None:
        """Whether the interval excludes zero; None where there are too few seeds for one."""
        return not self.gap.low <= 0 <= self.gap.high if self.gap.enough else None


@dataclass(frozen=True)
class Panel:
    """One column of a proxy in one metric, beside the paper's."""

    setting: Setting
    metric: Metric
    ours: Samples
    paper: Published

    @cached_property
    def correlations(self) -> list[Correlation]:
        return correlations(self.ours, self.paper)

    @cached_property
    def order(self) -> Order:
        return order(self.ours, self.paper, higher=self.metric.higher)


def panels(grid: Grid) -> Iterator[Panel]:
    """Every column that is one of the paper's on less data, with accuracy and forgetting."""
    for setting in (s for s in grid.settings if is_proxy(dict(s.protocol))):
        for metric in (ACCURACY, FORGETTING):
            paper = published(metric.name, setting.dataset, setting.n_tasks, setting.memory)
            ours = {m: found for m in paper if (found := grid.cell(Row(m), setting).by_seed(metric))}
            if len(common(ours, paper)) >= FEWEST:
                yield Panel(setting, metric, ours, paper)


def is_proxy(protocol: Mapping[str, Any]) -> bool:
    """Whether a protocol gives a method less than the paper does: fewer pixels, images or channels.

    >>> is_proxy({"image_size": 16, "width": 20}), is_proxy({"width": 8}), is_proxy({"width": 64})
    (True, True, False)
    """
    width = reference.settings()["protocol"]["width"]
    return any(protocol.get(k) is not None for k in REDUCTION) or protocol.get("width", width) < width


def published(metric: str, dataset: str, n_tasks: int, memory: int) -> dict[str, PublishedValue]:
    """The paper's column of the same data set, number of tasks and memory; empty where it has none."""
    v = reference.values(metric, reference.PAPER)
    v = v[(v["dataset"] == dataset) & (v["n_tasks"] == n_tasks) & (v["memory"] == memory)]
    cells = zip(v["method"], v["mean"], v["std"], v["n"], strict=True)
    return {method: PublishedValue(float(mean), float(std), int(n)) for method, mean, std, n in cells}


def common(ours: Samples, paper: Published) -> list[str]:
    """Methods that both know, without the two bounds, which any ranking gets right."""
    return [m for m in competitors() if m in ours and m in paper]


def correlations(ours: Samples, paper: Published, methods: Sequence[str] | None = None) -> list[Correlation]:
    """Spearman's and Kendall's (tau-b) over the methods that both know; none below three methods.

    Seeds are shared by all methods (class order and stream are), so a resample draws seeds for all of them at once and
    then methods. The paper's numbers are taken as they stand.
    """
    names = list(methods) if methods is not None else common(ours, paper)
    shared = sorted(set.intersection(*(set(ours[m]) for m in names))) if names else []
    if len(names) < FEWEST or not shared:
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


def order(ours: Samples, paper: Published, *, higher: bool) -> Order:
    """Every pair of competitors; `higher` says which way is better."""
    tied, found, sign = 0, list[Pair](), 1.0 if higher else -1.0
    for a, b in itertools.combinations(common(ours, paper), 2):
        if paper[a].mean == paper[b].mean:
            tied += 1
            continue
        better, worse = sorted((a, b), key=lambda m: -sign * paper[m].mean)
        gap = combination([(sign, ours[better]), (-sign, ours[worse])])
        found.append(Pair(better, worse, abs(paper[a].mean - paper[b].mean), gap))
    adjusted = zip(found, holm([p.gap.against() for p in found]), strict=True)
    wrong = sorted((p for p in found if p.gap.mean < 0), key=lambda p: (p.gap.mean, p.better, p.worse))
    certain = sum(pair.gap.mean < 0 and p < 0.05 for pair, p in adjusted)
    return Order(len(found) - len(wrong), tied, tuple(wrong), certain)


def steps(ours: Mapping[Flags, BySeed], paper: Mapping[Flags, float]) -> list[Step]:
    """Every pair of rows of the ablation that differ in one part, the part off and then on."""
    return [
        Step(before, after, paper[after] - paper[before], combination([(1.0, ours[after]), (-1.0, ours[before])]))
        for before, after in itertools.permutations(paper, 2)
        if [(b, a) for b, a in zip(before, after, strict=True) if b != a] == [(False, True)]
        and before in ours and after in ours
    ]  # fmt: skip
