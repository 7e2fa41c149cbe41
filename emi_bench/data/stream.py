"""A data set as a class-incremental stream: which classes come when, and in which order their samples do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from emi_bench.data.dataset import DataSet
from emi_bench.data.tasks import Groups, numbered
from emi_bench.seeds import seed_for

#: What becomes of the images that do not fill a batch: join the last full one, be a batch of their own, be left out.
LastBatch: TypeAlias = Literal["merge", "keep", "drop"]


def cut(n: int, batch: int, last: LastBatch = "merge") -> list[slice]:
    """The batches of n samples in a row. Fewer than one batch are one batch, whatever `last` says.

    >>> [(s.start, s.stop) for s in cut(7, 3)]
    [(0, 3), (3, 7)]
    >>> [(s.start, s.stop) for s in cut(7, 3, "keep")]
    [(0, 3), (3, 6), (6, 7)]
    """
    whole = [slice(start, start + batch) for start in range(0, n - batch + 1, batch)]
    rest = slice(len(whole) * batch, n)
    if rest.start == n or (whole and last == "drop"):
        return whole
    if whole and last == "merge":
        return [*whole[:-1], slice(whole[-1].start, n)]
    return [*whole, rest]


def class_order(n_classes: int, seed: int, kind: str = "seed") -> list[int]:
    """The order in which classes arrive; the same for every method of a seed.

    >>> class_order(4, 0, "natural")
    [0, 1, 2, 3]
    >>> sorted(class_order(10, 7)) == list(range(10))
    True
    """
    if kind == "natural":
        return list(range(n_classes))
    rng = np.random.default_rng(seed_for(seed, "class_order"))
    return [int(c) for c in rng.permutation(n_classes)]


class Remaining:
    """The numbers 0..n-1; the k-th of those that are left is taken out in log n steps, whatever k is.

    >>> left = Remaining(5)
    >>> [left.take(k) for k in (3, 3, 0, 1, 0)]
    [3, 4, 0, 2, 1]
    """

    def __init__(self, n: int) -> None:
        self.leaves = 1
        self.below: list[int] = [0]  # node -> how many are left under its left child; the children of i are 2i, 2i+1
        depth = max(0, n - 1).bit_length()
        for d in range(depth):
            width = 1 << (depth - d)
            self.below += np.clip(n - width * np.arange(self.leaves), 0, width // 2).tolist()
            self.leaves *= 2

    def take(self, k: int) -> int:
        node = 1
        while node < self.leaves:
            left = self.below[node]
            if k < left:
                self.below[node] -= 1
                node *= 2
            else:
                k -= left
                node = 2 * node + 1
        return node - self.leaves


@dataclass(frozen=True)
class Stream:
    """T tasks. Labels are never renumbered: a class id is its logit's index.

    Each sample of a task comes exactly once, in an order drawn from the seed (but see `LastBatch`).
    """

    data: DataSet
    tasks: list[list[int]]  #: classes of each task
    seed: int

    @classmethod
    def of(cls, data: DataSet, n_tasks: int, seed: int, kind: str = "seed", groups: Groups | None = None) -> Stream:
        """Tasks of equal class counts, or those of `groups` (see `checked_groups`) in their own order."""
        if groups is not None:
            return cls(data, numbered(groups, data.class_names), seed)
        order = class_order(data.n_classes, seed, kind)
        size = data.n_classes // n_tasks
        return cls(data, [order[t * size : (t + 1) * size] for t in range(n_tasks)], seed)

    @property
    def class_order(self) -> list[int]:
        return [c for task in self.tasks for c in task]

    def _members(self, task: int) -> np.ndarray:
        labels = self.data.y_train.numpy()
        return np.flatnonzero(np.isin(labels, self.tasks[task]))

    def order(self, task: int) -> np.ndarray:
        """Indices into the training set, in the order in which task `task` presents them."""
        rng = np.random.default_rng(seed_for(self.seed, "stream", task))
        members: np.ndarray = rng.permutation(self._members(task))
        return members

    def balanced_batch(self, task: int, batch: int) -> int:
        """The largest multiple of the classes of a task that a batch holds: what `balanced_order` is to be cut by."""
        classes = len(self.tasks[task])
        return batch // classes * classes

    def balanced_order(self, task: int, batch: int) -> np.ndarray:
        """Like `order`, with floor(batch / classes) samples of each class in a batch, until a class is exhausted.

        What is left over follows at the end, so that still every sample comes exactly once.
        """
        order = self.order(task)
        labels = self.data.y_train.numpy()[order]
        share = batch // len(self.tasks[task])
        by_class = [order[labels == c] for c in self.tasks[task]]
        rounds = min(len(members) // share for members in by_class)
        rng = np.random.default_rng(seed_for(self.seed, "stream", len(self.tasks) + task))
        mixed = [
            rng.permutation(np.concatenate([m[r * share : (r + 1) * share] for m in by_class])) for r in range(rounds)
        ]
        rest = rng.permutation(np.concatenate([m[rounds * share :] for m in by_class]))
        return np.concatenate([*mixed, rest])

    def blurry_orders(self, scale: float) -> list[np.ndarray]:
        """The orders of all tasks, run into each other, cut where the tasks would end.

        The next sample is the k-th that is left, k = floor |N(0, scale^2)|; a k past the end is drawn again, up to ten
        times, then it is the first (MKD's and CCL-DC's stream).
        """
        orders = [self.order(t) for t in range(len(self.tasks))]
        clear = np.concatenate(orders)
        rng, left = np.random.default_rng(seed_for(self.seed, "blur")), Remaining(len(clear))
        mixed = []
        for n in range(len(clear), 0, -1):
            k = next((d for _ in range(11) if (d := int(abs(rng.normal(0, scale)))) < n), 0)
            mixed.append(left.take(k))
        return np.split(clear[mixed], np.cumsum([len(o) for o in orders])[:-1])

    def batches(self, indices: np.ndarray, batch: int, last: LastBatch = "merge") -> Iterator[tuple[Tensor, Tensor]]:
        """x (b,3,H,W) uint8 on the device and y (b,) on the host, in the order of `indices`."""
        at = torch.from_numpy(indices)
        x = self.data.x_train[at.to(self.data.x_train.device)]  # one gather a task; batches are views of it
        y = self.data.y_train[at]
        for rows in cut(len(at), batch, last):
            yield x[rows], y[rows]


@dataclass(frozen=True)
class TestSet:
    """The test images sorted by task, so that all tasks seen so far are one prefix of one tensor."""

    __test__ = False  # not a pytest class

    x: Tensor
    y: Tensor  #: on the device of x
    ends: list[int]  #: ends[j]: where task j ends

    @classmethod
    def of(cls, stream: Stream) -> TestSet:
        data = stream.data
        task_of = np.empty(data.n_classes, dtype=np.int64)
        for t, classes in enumerate(stream.tasks):
            task_of[classes] = t
        tasks = task_of[data.y_test.numpy()]
        order = torch.from_numpy(np.argsort(tasks, kind="stable"))
        ends = np.cumsum(np.bincount(tasks, minlength=len(stream.tasks))).tolist()
        device = data.x_test.device
        return cls(data.x_test[order.to(device)], data.y_test[order].to(device), ends)

    def sample(self, per_class: int, seed: int) -> TestSet:
        """The first `per_class` images of every class, in an order drawn from the seed; all of a class with fewer."""
        labels = self.y.cpu().numpy()
        order = np.random.default_rng(seed).permutation(len(labels))
        chosen = np.concatenate([order[labels[order] == c][:per_class] for c in np.unique(labels)])
        rows = np.sort(chosen)
        ends = np.searchsorted(rows, self.ends).tolist()
        at = torch.from_numpy(rows).to(self.x.device)
        return TestSet(self.x[at], self.y[at], ends)

    def sizes(self) -> list[int]:
        """Test samples of each task."""
        return [end - start for start, end in zip([0, *self.ends], self.ends, strict=False)]
