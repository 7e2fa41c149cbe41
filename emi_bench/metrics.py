"""Functions of one accuracy matrix.

`a[i][j]` is the accuracy on task j after learning task i (rows are time, columns are tasks), in 0-1; only j <= i is
used, what stands above the diagonal is ignored (NaN in our files). T is the number of tasks.
Each takes one matrix (and gives a float) or a stack of them (and gives an array), like numpy's functions of matrices.
A run that is evaluated only at its end (offline) has NaN in all rows but the last: its average accuracy is defined,
whatever needs an earlier row is NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Matrix = NDArray[np.float64]


@cache
def _below(rows: int, columns: int) -> NDArray[np.bool_]:
    """Where j <= i."""
    return np.tril(np.ones((rows, columns), dtype=bool))


def _matrix(a: ArrayLike) -> Matrix:
    m = np.asarray(a, dtype=np.float64)
    if m.ndim < 2 or m.shape[-1] != m.shape[-2] or not m.size:
        raise ValueError(f"an accuracy matrix is square and not empty; this one has shape {m.shape}")
    return np.where(_below(*m.shape[-2:]), m, np.nan)


def _value(x: Matrix) -> Any:
    """A float of one matrix; of a stack, an array."""
    return x if x.ndim else x.item()


def _best(m: Matrix) -> Matrix:
    """The best accuracy of each task over the rows since it was learned; NaN where one of them is unknown."""
    return np.asarray(np.where(_below(*m.shape[-2:]), m, -np.inf).max(axis=-2))


def _diagonal(m: Matrix) -> Matrix:
    return np.diagonal(m, axis1=-2, axis2=-1)


def incremental_accuracy(a: ArrayLike) -> Matrix:
    """A_i = mean_{j<=i} a[i][j], for every i: the curve over the tasks observed so far.

    >>> incremental_accuracy([[0.9, 0, 0], [0.5, 0.8, 0], [0.3, 0.4, 0.7]]).round(4).tolist()
    [0.9, 0.65, 0.4667]
    """
    m = _matrix(a)
    return np.asarray(np.where(_below(*m.shape[-2:]), m, 0.0).sum(axis=-1) / np.arange(1, m.shape[-1] + 1))


def average_accuracy(a: ArrayLike) -> Any:
    """Average accuracy at the end, A_T = (1/T) sum_j a[T][j].

    >>> round(average_accuracy([[0.9, 0, 0], [0.5, 0.8, 0], [0.3, 0.4, 0.7]]), 6)
    0.466667
    """
    return _value(incremental_accuracy(a)[..., -1])


def average_incremental_accuracy(a: ArrayLike) -> Any:
    """Average incremental accuracy, (1/T) sum_i A_i with A_i = mean_{j<=i} a[i][j].

    >>> round(average_incremental_accuracy([[0.9, 0, 0], [0.5, 0.8, 0], [0.3, 0.4, 0.7]]), 6)
    0.672222
    """
    return _value(incremental_accuracy(a).mean(axis=-1))


def forgetting(a: ArrayLike) -> Any:
    """The paper's average forgetting, F = 1/(T-1) sum_{j<T} ( max_{j<=k<T} a[k][j] - a[T][j] ).

    T-1 tasks, the maximum over the rows before the last; negative where the last row is the best. NaN for one task.

    >>> forgetting([[0.9, 0, 0], [0.5, 0.8, 0], [0.3, 0.4, 0.7]])
    0.5
    """
    m = _matrix(a)
    if m.shape[-1] < 2:
        return _value(np.full(m.shape[:-2], np.nan))
    return _value((_best(m[..., :-1, :])[..., :-1] - m[..., -1, :-1]).mean(axis=-1))


def forgetting_raptor(a: ArrayLike) -> Any:
    """The reference framework's average forgetting, F = 1/T sum_j ( max_{k<=T} a[k][j] - a[T][j] ).

    All T tasks, the maximum over all rows including the last, so never negative.

    >>> round(forgetting_raptor([[0.9, 0, 0], [0.5, 0.8, 0], [0.3, 0.4, 0.7]]), 6)
    0.333333
    """
    m = _matrix(a)
    return _value((_best(m) - m[..., -1, :]).mean(axis=-1))


def bwt(a: ArrayLike) -> Any:
    """Backward transfer, 1/(T-1) sum_{j<T} ( a[T][j] - a[j][j] ). NaN for one task.

    >>> round(bwt([[0.9, 0, 0], [0.5, 0.8, 0], [0.3, 0.4, 0.7]]), 6)
    -0.5
    """
    m = _matrix(a)
    if m.shape[-1] < 2:
        return _value(np.full(m.shape[:-2], np.nan))
    return _value((m[..., -1, :-1] - _diagonal(m)[..., :-1]).mean(axis=-1))


def learning_accuracy(a: ArrayLike) -> Any:
    """Learning accuracy, (1/T) sum_j a[j][j]: each task right after it was learned.

    >>> round(learning_accuracy([[0.9, 0, 0], [0.5, 0.8, 0], [0.3, 0.4, 0.7]]), 6)
    0.8
    """
    return _value(_diagonal(_matrix(a)).mean(axis=-1))


def _relative(m: Matrix, tasks: int) -> Any:
    best, last = _best(m)[..., :-1], m[..., -1, :-1]
    with np.errstate(invalid="ignore", divide="ignore"):
        lost = np.where(best == 0, 1.0, (best - last) / best)
    return _value(lost.sum(axis=-1) / tasks if tasks else np.full(m.shape[:-2], np.nan))


def relative_forgetting(a: ArrayLike) -> Any:
    """Relative forgetting, 1/(T-1) sum_{j<T} ( max_i a[i][j] - a[T][j] ) / max_i a[i][j].

    A task with maximum 0 counts 1. NaN for one task. Average accuracy is about learning accuracy times one minus it.

    >>> round(relative_forgetting([[0.9, 0, 0], [0.6, 0.8, 0], [0.4, 0.5, 0.7]]), 6)
    0.465278
    """
    m = _matrix(a)
    return _relative(m, m.shape[-1] - 1)


def relative_forgetting_ccldc(a: ArrayLike) -> Any:
    """The same divided by T, as CCL-DC's program has it.

    >>> round(relative_forgetting_ccldc([[0.9, 0, 0], [0.6, 0.8, 0], [0.4, 0.5, 0.7]]), 6)
    0.310185
    """
    m = _matrix(a)
    return _relative(m, m.shape[-1])


METRICS: dict[str, Callable[[ArrayLike], Any]] = {
    "average_accuracy": average_accuracy,
    "average_incremental_accuracy": average_incremental_accuracy,
    "forgetting": forgetting,
    "forgetting_raptor": forgetting_raptor,
    "bwt": bwt,
    "learning_accuracy": learning_accuracy,
}


def all_metrics(a: ArrayLike) -> dict[str, Any]:
    """Every metric by its name; NaN where the matrix does not define it."""
    return {name: metric(a) for name, metric in METRICS.items()}
