"""Accuracy on the tasks seen so far: without a trace in the run, and in batches that suit the device."""

from __future__ import annotations

import inspect

import numpy as np
import torch
from torch import Tensor

from emi_bench.data.stream import TestSet
from emi_bench.errors import UserError
from emi_bench.methods import Method

LARGEST = 512
CPU_PIXELS = 128 * 32 * 32  # a batch whose maps fit a processor's caches: measured by `python -m benchmarks.evaluation`


def eval_batch(device: torch.device, image_size: int) -> int:
    """Images in a batch of an evaluation: as many as a card likes, on a CPU as many as its caches.

    >>> [eval_batch(torch.device("cpu"), side) for side in (8, 32, 64)], eval_batch(torch.device("cuda"), 32)
    ([512, 128, 32], 512)
    """
    return LARGEST if device.type != "cpu" else max(1, min(LARGEST, CPU_PIXELS // image_size**2))


def evaluate(method: Method, test: TestSet, n_tasks: int, others: dict[str, list[float]] | None = None) -> list[float]:
    """Accuracy on each of the first n_tasks tasks: one pass over one tensor, one synchronisation.

    A method may predict in several ways: `others` is filled with the accuracies of those it is not judged by.
    """
    end = test.ends[n_tasks - 1]
    size = eval_batch(test.x.device, test.x.shape[-1])
    said = [_class_ids(method, method.predictions(x), len(x)) for x in torch.split(test.x[:end], size)]
    ids = torch.stack([torch.cat([s[name] for s in said]) for name in said[0]])
    total = torch.nn.functional.pad((ids == test.y[:end]).cumsum(1), (1, 0)).cpu()
    ends = torch.tensor([0, *test.ends[:n_tasks]])
    correct = total[:, ends].diff(dim=1).tolist()
    rows = [[c / n for c, n in zip(row, test.sizes(), strict=False)] for row in correct]
    accuracies = dict(zip(said[0], rows, strict=True))
    judged = accuracies.pop("")
    if others is not None:
        others.update(accuracies)
    return judged


def _class_ids(method: Method, said: dict[str, Tensor], n: int) -> dict[str, Tensor]:
    """What a method predicts for n images; of another form it would be compared with the labels all the same."""
    for ids in said.values():
        if not isinstance(ids, Tensor) or ids.shape != (n,) or ids.dtype != torch.int64:
            told = f"{ids.dtype} of shape {tuple(ids.shape)}" if isinstance(ids, Tensor) else type(ids).__name__
            code = inspect.unwrap(type(method).predict).__code__
            raise UserError(
                f"{code.co_filename}:{code.co_firstlineno}: predict of {method.name} gives {told} for {n} images",
                hint=f"class ids are wanted: torch.int64 of shape ({n},), as argmax(1) gives them; `emi-bench check` "
                "tells what else",
            )
    return said


class EvalWindow:
    """The evaluations at the end of one task whose mean is reported (`protocol.eval_window`)."""

    def __init__(self, method: Method, test: TestSet, n_tasks: int, size: int, n_steps: int) -> None:
        self.method, self.test, self.n_tasks = method, test, n_tasks
        self.last = n_steps
        self.first = n_steps - (size - 1 if method.learns_in_steps else 0)  # before its task's end it is the old one
        self.rows: list[list[float]] = []
        self.others: dict[str, list[float]] = {}  #: what else the method predicts, at the very end

    def after(self, step: int) -> None:
        """Evaluate if the step is one of the last, but the very last: the task's end comes before that one."""
        if self.first <= step < self.last:
            self.rows.append(evaluate(self.method, self.test, self.n_tasks))

    def close(self) -> list[float]:
        """The last evaluation, and the mean of all."""
        self.rows.append(evaluate(self.method, self.test, self.n_tasks, self.others))
        return np.mean(self.rows, 0).tolist()  # type: ignore[no-any-return]
