"""Functions of accuracy measured while the stream runs: what averages at task ends hide.

A point k is taken after step s_k, in task tau(k); a_k[j] is the accuracy on task j, for every task begun. `curve_of`
makes a `Curve` from the rows of one run that `emi_bench.load_anytime` gives. Accuracies are 0-1. Most are De Lange et
al.'s (2205.13452) and Soutif-Cormerais et al.'s (2308.10328).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
WINDOW = 10  # points, of the windowed measures


@dataclass(frozen=True)
class Curve:
    """K points of a run with T tasks."""

    step: NDArray[np.int64]  #: (K,) s_k
    task: NDArray[np.int64]  #: (K,) tau(k), from 0
    accuracy: Array  #: (K,T) a_k[j], NaN for a task that has not begun


def curve_of(rows: pd.DataFrame) -> Curve:
    """The curve of one run from its rows."""
    table = rows.pivot(index="step", columns="of_task", values="accuracy").sort_index()
    task = rows.groupby("step")["task"].first().sort_index()
    accuracy = table.reindex(columns=range(1, int(task.max()) + 1)).to_numpy(dtype=float)
    return Curve(table.index.to_numpy(dtype=np.int64), task.to_numpy(dtype=np.int64) - 1, accuracy)


def anytime_accuracy(c: Curve) -> Array:
    """A_k, the mean of a_k[j] over the tasks begun, for every point."""
    return np.asarray(np.nanmean(c.accuracy, axis=1))


def average_anytime_accuracy(c: Curve) -> float:
    """AAA, sum_k w_k A_k / sum_k w_k with w_k = s_k - s_{k-1}: the mean of A_k over the stream, however points lie.

    >>> average_anytime_accuracy(Curve(np.array([2, 3]), np.array([0, 0]), np.array([[0.4], [0.7]])))
    0.5
    """
    return float(np.average(anytime_accuracy(c), weights=np.diff(c.step, prepend=0)))


def minimum_since_learned(c: Curve) -> Array:
    """m_k[j], the least accuracy on task j at the points after its end, up to k; NaN before (K,T)."""
    after = c.task[:, None] > np.arange(c.accuracy.shape[1])
    least = np.minimum.accumulate(np.where(after, c.accuracy, np.inf), axis=0)
    return np.where(after, least, np.nan)


def min_acc(c: Curve) -> float:
    """min-ACC, the mean of m_K[j] over all tasks but the last; NaN for one task."""
    last = minimum_since_learned(c)[-1, : c.task[-1]]
    return float(last.mean()) if len(last) else math.nan


def worst_case_accuracy(c: Curve) -> Array:
    """WC_k = a_k[tau] / tau + (1 - 1/tau) mean_{j<tau} m_k[j] for every point; in the first task a_k itself."""
    least = minimum_since_learned(c)
    tasks = c.task + 1
    now = c.accuracy[np.arange(len(tasks)), c.task]
    return np.asarray((now + np.nansum(least, axis=1)) / tasks)


def wc_acc(c: Curve) -> float:
    """WC-ACC, the worst-case accuracy at the end of the stream."""
    return float(worst_case_accuracy(c)[-1])


def _windowed(c: Curve, sign: int, window: int) -> Array:
    """For each task the largest sign * (a_p - a_q) over p < q < p + window in its own points, at least 0 (T,)."""
    out = []
    for column in c.accuracy.T:
        a = sign * column[~np.isnan(column)]
        changes = [(a[:-d] - a[d:]).max() for d in range(1, min(window, len(a)))]
        out.append(max([0.0, *changes]))
    return np.array(out)


def windowed_forgetting(c: Curve, window: int = WINDOW) -> Array:
    """WF of each task: its largest drop within `window` points. Reported is the mean."""
    return _windowed(c, 1, window)


def windowed_plasticity(c: Curve, window: int = WINDOW) -> Array:
    """WP of each task: its largest rise within `window` points."""
    return _windowed(c, -1, window)


def stability_gap(c: Curve) -> Array:
    """For every switch i the mean over j <= i of a at the end of task i minus the least of the next task's first tenth
    of points (at least one) (T-1,).
    """
    gaps = []
    for i in range(c.task[-1]):
        end = c.accuracy[c.task == i][-1, : i + 1]
        following = c.accuracy[c.task == i + 1]
        first = following[: max(1, math.ceil(len(following) / 10)), : i + 1]
        gaps.append(float((end - first.min(axis=0)).mean()))
    return np.array(gaps)


def task_confusion(rows: pd.DataFrame) -> Array:
    """Of one run's rows, at its end: the share of task i's images that is taken for a class of task j (T,T).

    The diagonal minus the accuracy is confusion inside a task, the rest is confusion between tasks.
    """
    last = rows[rows["step"] == rows["step"].max()].sort_values("of_task")
    counts = np.stack(last["into"].to_list()).astype(float)
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def recency_share(rows: pd.DataFrame) -> Array:
    """Of one run's rows, at each task end: the share of all predictions that fall into the newest task's classes (T,).
    Without a bias to what came last it is that task's share of the test images.
    """
    ends = rows[rows["into"].notna()]
    ends = ends.assign(recent=[int(n[t - 1]) for n, t in zip(ends["into"], ends["task"], strict=True)])
    totals = ends.groupby("task")[["recent", "n_test"]].sum().sort_index()
    return (totals["recent"] / totals["n_test"]).to_numpy(dtype=float)


def summary(rows: pd.DataFrame) -> dict[str, float]:
    """What a table shows of one run."""
    c = curve_of(rows)
    return {
        "aaa": average_anytime_accuracy(c),
        "wc_acc": wc_acc(c),
        "min_acc": min_acc(c),
        "windowed_forgetting": float(windowed_forgetting(c).mean()),
        "stability_gap": float(stability_gap(c).mean()) if c.task[-1] else math.nan,
        "recency_share": float(recency_share(rows)[-1]),
        "end": float(anytime_accuracy(c)[-1]),
    }
