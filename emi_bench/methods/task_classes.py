"""Methods that tell the current task's classes from those of earlier tasks: GSA and MOSE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from emi_bench.methods.base import Method, MethodConfig
from emi_bench.problem import Problem


class TaskClassesConfig(MethodConfig):
    """What the authors of both train with."""

    optimizer: Literal["sgd", "adam", "adamw"] = "adam"
    """Adam (authors)."""
    lr: float = Field(1e-3, gt=0)
    """Learning rate, constant over the stream (authors)."""
    weight_decay: float = Field(1e-4, ge=0)
    """L2 inside Adam (authors)."""
    normalize: bool = True
    """Zero-mean, unit-variance pixels (authors)."""


class TaskClasses(Method):
    """The current task's classes are those of the stream since the last task's end; memory is drawn by class."""

    uses_task_ends = True

    def __init__(self, config: MethodConfig, problem: Problem, **parts: Any) -> None:
        super().__init__(config, problem, **parts)
        self.new_classes: list[int] = []  # of the current task, in the order of arrival
        self.batch_in_task = 0

    def note_classes(self, y: Tensor) -> None:
        super().note_classes(y)
        self.new_classes += [c for c in dict.fromkeys(y.tolist()) if c not in self.new_classes]

    @property
    def earlier_classes(self) -> list[int]:
        return [c for c in self.seen if c not in self.new_classes]

    def stored(self, what: str, classes: Sequence[int], k: int) -> tuple[Tensor, Tensor]:
        """Up to k stored images of some classes in network units, without replacement; all in slot order if fewer."""
        slots = self.draws.pick(what, sorted(s for c in classes for s in self.memory.slots_of(c)), k)
        images, labels = self.memory.at(slots)
        return self.pixels(images), labels

    def columns(self, classes: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The columns of some classes (K,), and for every class its place among them (C,), 0 where it is not."""
        place = torch.zeros(self.problem.n_classes, dtype=torch.int64)
        place[list(classes)] = torch.arange(len(classes))
        both = torch.cat([torch.tensor(classes, dtype=torch.int64), place]).to(self.device, non_blocking=True)
        return both[: len(classes)], both[len(classes) :]

    def end_task(self) -> None:
        super().end_task()
        self.new_classes, self.batch_in_task = [], 0

    def get_extra_state(self) -> dict[str, Any]:
        return super().get_extra_state() | {"new_classes": list(self.new_classes), "batch_in_task": self.batch_in_task}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        super().set_extra_state(state)
        self.new_classes, self.batch_in_task = list(state["new_classes"]), state["batch_in_task"]
