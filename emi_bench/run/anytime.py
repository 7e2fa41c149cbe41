"""Accuracy while the stream runs (`protocol.anytime`): watched from outside, without a trace in the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from emi_bench.data.stream import Stream, TestSet
from emi_bench.methods import Method
from emi_bench.run.evaluation import eval_batch
from emi_bench.run.spec import Anytime
from emi_bench.seeds import seed_for


class CurveWatcher:
    """Of one run: whose curve, on which test images (the same for every method of a seed), and where its rows go."""

    def __init__(self, rows: list[list[Any]], method: Method, stream: Stream, test: TestSet, asked: Anytime) -> None:
        self.rows, self.method, self.every = rows, method, asked.every
        drawn = seed_for(stream.seed, "anytime")
        self.images = test if asked.images is None else test.sample(asked.images, drawn)
        self.task_of = torch.zeros(stream.data.n_classes, dtype=torch.int64)
        for t, classes in enumerate(stream.tasks):
            self.task_of[classes] = t

    def of_task(self, task: int, before: Sequence[Sequence[slice]], batches: Sequence[slice]) -> TaskCurve:
        """The curve of a task (from 1), given the batches of those before it and its own."""
        begun = sum(b[-1].stop for b in before)
        return TaskCurve(self, task, sum(map(len, before)), [begun, *(begun + b.stop for b in batches)])


class TaskCurve:
    """The points of one task: after every so many of its steps, and after its end. Rows are those of `result.CURVE`.

    Steps and samples count from the beginning of the stream, tasks from 1. `into` has, at the end of a task, for each
    task the number of images that were taken for one of its classes; it is None at other points.
    """

    def __init__(self, watcher: CurveWatcher, task: int, first_step: int, samples: list[int]) -> None:
        self.watcher, self.task, self.first_step = watcher, task, first_step
        self.samples = samples  #: of the stream, seen after k steps of the task

    def after(self, step: int) -> None:
        """A point if it is time; the last step's comes when the task has ended."""
        if step % self.watcher.every == 0 and step < len(self.samples) - 1:
            self._point(step, ends=False)

    def close(self) -> None:
        """The point after the end of the task."""
        self._point(len(self.samples) - 1, ends=True)

    def _point(self, step: int, *, ends: bool) -> None:
        w = self.watcher
        images, end = w.images, w.images.ends[self.task - 1]
        size = eval_batch(images.x.device, images.x.shape[-1])
        ids = torch.cat([w.method.predict(x) for x in torch.split(images.x[:end], size)])
        both = torch.stack([ids, (ids == images.y[:end]).to(ids.dtype)]).cpu()  # one look at the device
        sizes = images.sizes()[: self.task]
        for j, (said, right) in enumerate(zip(*(torch.split(row, sizes) for row in both), strict=True), 1):
            into = torch.bincount(w.task_of[said], minlength=len(images.ends)).tolist() if ends else None
            at = [self.first_step + step, self.samples[step], self.task, j]
            w.rows.append([*at, right.sum().item() / len(right), len(right), into])
