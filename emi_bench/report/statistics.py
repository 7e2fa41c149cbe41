"""Intervals and tests: t intervals, paired over shared seeds where there are enough, and none below three runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

Sample = NDArray[np.float64]
BySeed = Mapping[int, float]
ENOUGH = 3  #: fewer runs make no interval
NAN = float("nan")


def signed(x: float) -> str:
    """One decimal of a difference as printed; no negative zero.

    >>> signed(-0.04), signed(-1.26)
    ('+0.0', '-1.3')
    """
    return f"{round(x, 1) + 0.0:+.1f}"


def t_quantile(df: float) -> float:
    """By how many standard errors a 95 % t interval goes to either side.

    >>> round(t_quantile(9), 3)
    2.262
    """
    return float(special.stdtrit(df, 0.975))


@dataclass(frozen=True)
class Estimate:
    """A mean with its standard error `se` on `df` degrees of freedom, from n runs (of each sample).

    `paired`: over seeds that all samples share. Below three runs `se` is NaN, and so are the interval and p.
    """

    mean: float
    se: float
    df: float
    n: int
    paired: bool = True

    @property
    def enough(self) -> bool:
        return self.se == self.se

    @cached_property
    def half(self) -> float:
        """Half the width of the 95 % t interval."""
        return t_quantile(self.df) * self.se if self.enough else NAN

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half

    @property
    def interval(self) -> str:
        """As printed: `[+0.3, +1.2]`; nothing below three runs."""
        return f"[{signed(self.low)}, {signed(self.high)}]" if self.enough else ""

    def against(self, value: float = 0.0, rounding: float = 0.0) -> float:
        """Two-sided p of the t test that the mean is `value`, give or take `rounding`."""
        if not self.enough:
            return NAN
        distance = max(0.0, abs(self.mean - value) - rounding)
        if not self.se:
            return float(distance <= 1e-9)
        return float(2 * special.stdtr(self.df, -distance / self.se))


def estimate(values: ArrayLike) -> Estimate:
    """A sample's mean, x ± t_{.975, n-1} s/sqrt(n).

    >>> e = estimate([1.0, 2.0, 3.0])
    >>> round(e.low, 3), round(e.high, 3), estimate([1.0, 2.0]).enough
    (-0.484, 4.484, False)
    """
    x = np.asarray(values, dtype=np.float64)
    n = len(x)
    se = float(x.std(ddof=1)) / n**0.5 if n >= ENOUGH else NAN
    return Estimate(float(x.mean()) if n else NAN, se, n - 1.0, n)


def known(mean: float, std: float, n: int) -> Estimate:
    """A published mean of n runs with their standard deviation."""
    return Estimate(mean, std / n**0.5, n - 1.0, n)


def independent(terms: Sequence[tuple[float, Estimate]]) -> Estimate:
    """A weighted sum of independent estimates: Welch's standard error and Satterthwaite's degrees of freedom."""
    mean = sum(w * e.mean for w, e in terms)
    n = min(e.n for _, e in terms)
    parts = [((w * e.se) ** 2, e.df) for w, e in terms]
    variance = sum(v for v, _ in parts)
    if not variance > 0:  # constant, or too few runs
        return Estimate(mean, variance, 1.0, n, paired=False)
    df = variance**2 / sum(v**2 / df for v, df in parts if v > 0)
    return Estimate(mean, variance**0.5, df, n, paired=False)


def combination(terms: Sequence[tuple[float, BySeed]]) -> Estimate:
    """A weighted sum of samples by seed, a difference say: over the seeds they share, if these are enough for an
    interval or the samples are not; else of independent samples."""
    shared = sorted(set.intersection(*(set(x) for _, x in terms)))
    if len(shared) >= ENOUGH or (len(shared) > 1 and min(len(x) for _, x in terms) < ENOUGH):
        return estimate([sum(w * x[s] for w, x in terms) for s in shared])
    return independent([(w, estimate(list(x.values()))) for w, x in terms])


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
    out = [NAN] * len(p)
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
class Contrast(Estimate):
    """x minus y. `wins` and the exact Wilcoxon `p` are of the pairs; `improvement` of all runs."""

    wins: int = 0
    improvement: float = NAN
    p: float = NAN


def contrast(x: BySeed, y: BySeed, higher: bool = True) -> Contrast:
    """Two samples by seed, paired where they share enough (`combination`)."""
    e = combination([(1.0, x), (-1.0, y)])
    better = improvement(np.array(list(x.values())), np.array(list(y.values())), higher)
    d = np.array([x[s] - y[s] for s in sorted(x.keys() & y.keys())]) if e.paired else np.zeros(0)
    wins = int((d > 0).sum() if higher else (d < 0).sum())
    p = exact_wilcoxon(d) if len(d) >= ENOUGH else NAN
    return Contrast(e.mean, e.se, e.df, e.n, e.paired, wins, better, p)
