"""Accuracy on the tasks seen so far: without a trace in the run, and in batches that suit the device."""

from __future__ import annotations

import numpy as np
import torch

from emi_bench.data.stream import TestSet
from emi_bench.methods import Method

LARGEST = 512
CPU_PIXELS = 128 * 32 * 32  # a batch whose maps fit a processor's caches: measured by `python -m benchmarks.evaluation`


def eval_batch(device: torch.device, image_size: int) -> int:
    """Images in a batch of an evaluation: as many as a card likes, on a CPU as many as its caches.

    >>> [eval_batch(torch.device("cpu"), side) for side in (8, 32, 64)], eval_batch(torch.device("cuda"), 32)
    ([512, 128, 32], 512)
    """
    return LARGEST if device.type != "cpu" else max(1, min(LARGEST, CPU_PIXELS // image_size**2))


def evaluate(method: Method, test: TestSet, n_tasks: int) -> list[float]:
    """Accuracy on each of the first n_tasks tasks: one pass over one tensor, one synchronisation."""
    end = test.ends[n_tasks - 1]
    size = eval_batch(test.x.device, test.x.shape[-1])
    batches = zip(torch.split(test.x[:end], size), torch.split(test.y[:end], size), strict=True)
    right = torch.cat([method.predict(x) == y for x, y in batches])
    total = torch.cat([right.new_zeros(1, dtype=torch.int64), right.cumsum(0)]).cpu()
    ends = torch.tensor([0, *test.ends[:n_tasks]])
    correct = total[ends].diff()
    return [c / n for c, n in zip(correct.tolist(), test.sizes(), strict=False)]


class EvalWindow:
    """The evaluations at the end of one task whose mean is reported (`protocol.eval_window`)."""

    def __init__(self, method: Method, test: TestSet, n_tasks: int, size: int, n_steps: int) -> None:
        self.method, self.test, self.n_tasks = method, test, n_tasks
        self.first = (
            n_steps - size + 1 if method.learns_in_steps else n_steps
        )  # before its task's end it is the old one
        self.last = n_steps
        self.rows: list[list[float]] = []

    def after(self, step: int) -> None:
        """Evaluate if the step is one of the last, but the very last: the task's end comes before that one."""
        if self.first <= step < self.last:
            self.rows.append(evaluate(self.method, self.test, self.n_tasks))

    def close(self) -> list[float]:
        """The last evaluation, and the mean of all."""
        self.rows.append(evaluate(self.method, self.test, self.n_tasks))
        return np.mean(self.rows, 0).tolist()  # type: ignore[no-any-return]
