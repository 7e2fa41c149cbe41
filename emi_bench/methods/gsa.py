"""GSA: gradient self-adaptation against cross-task confusion (Guo, Liu, Zhao, CVPR 2023, arXiv 2305.14657)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, Self, cast

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from emi_bench.data.views import grey_crop_view
from emi_bench.losses.self_adaptation import GradientBalance
from emi_bench.methods.base import Losses, MethodConfig, View
from emi_bench.methods.task_classes import TaskClasses, TaskClassesConfig
from emi_bench.problem import Problem


class GSAConfig(TaskClassesConfig):
    """The authors' constants; the modern papers' ports use AdamW 5e-4 and plain pixels (the preset)."""

    betas: tuple[float, float] = (0.9, 0.99)
    """Adam's decay rates (authors)."""
    n_current: int | None = Field(None, ge=0)
    """Stored images of the current task beside the stream: half the replay batch without the stream batch, 22."""
    warm_up: int = Field(5, ge=0)
    """Batches at the start of every task in which all classes weigh the same (authors)."""
    balance_weight: float = Field(2.0, ge=0)
    """Weight of the balanced cross-entropy beside that of the new task (authors)."""
    views: Literal["port", "source"] = "port"
    """A view and its mirror image (CCL-DC's and MKD's ports); or a view and the mirror image of another, for the new
    task augmented once more (authors)."""

    @classmethod
    def modern(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        return super().modern(given) | {"betas": (0.9, 0.999)}

    def resolve(self, problem: Problem) -> Self:
        n_current = max(0, problem.replay_batch // 2 - problem.batch) if self.n_current is None else self.n_current
        return super().resolve(problem).model_copy(update={"n_current": n_current})


def balanced_counts(n_new: int, n_seen: int, replay: int) -> tuple[int, int]:
    """Rows of earlier tasks and of the current one in the balanced batch, both cut down to integers.

    >>> balanced_counts(2, 6, 64)
    (42, 21)
    """
    rho = n_new / n_seen
    return int(replay * (1 - rho)), int(replay * rho)


class GSA(TaskClasses):
    """L = 2 L_bal + L_new: a cross-entropy among the current task's classes, and one over all seen on a batch balanced
    by classes, where each class weighs by the ratio of its pulls to its pushes so far.

    Two forwards, new then balanced. While the memory is empty there is L_new alone. Predicts among the classes seen.
    Draws: `current`, `old` (slots), those of the view (of the new batch, then of the balanced), `reservoir`.
    """

    name = "gsa"
    title = "GSA"
    cite = "guo2023gsa"
    colour = "#bcbd22"
    marker = "H"
    config_class = GSAConfig
    config: GSAConfig

    def __init__(self, config: MethodConfig, problem: Problem, **parts: Any) -> None:
        super().__init__(config, problem, **parts)
        self.balance = GradientBalance(problem.n_classes)

    @classmethod
    def make_view(cls, config: MethodConfig, problem: Problem) -> View:
        return partial(grey_crop_view, grey_p=0.2, area=0.6)

    @classmethod
    def forwards(cls, config: MethodConfig, problem: Problem) -> float:
        n_current = cast(GSAConfig, config).n_current or 0
        return 6.0 * (problem.batch + n_current + problem.replay_batch)

    def doubled(self, images: Tensor, labels: Tensor, *, again: bool) -> tuple[Tensor, Tensor]:
        """[view; mirror image of a view], and their labels."""
        first = self.view_of(images)
        source = self.config.views == "source"
        second = self.view_of(images) if source else first
        both = torch.cat([first, second.flip(3)])
        return self.view_of(both) if source and again else both, labels.repeat(2)

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        c = self.config
        assert c.n_current is not None
        images, labels = self.prepare(x, y)
        current, current_labels = self.stored("current", self.new_classes, c.n_current)
        new, new_labels = torch.cat([images, current]), torch.cat([labels, current_labels])

        columns, place = self.columns(self.new_classes)
        rows, of_rows = self.doubled(new, new_labels, again=True)
        terms = {"ce_new": F.cross_entropy(self.net(rows)[:, columns], place[of_rows])}
        if self.memory.filled:
            n_old, n_new = balanced_counts(len(self.new_classes), len(self.seen), self.problem.replay_batch)
            old, old_labels = self.stored("old", self.earlier_classes, n_old)
            balanced, of_balanced = torch.cat([old, new[:n_new]]), torch.cat([old_labels, new_labels[:n_new]])
            if len(balanced):
                columns, place = self.columns(self.seen)
                rows, of_rows = self.doubled(balanced, of_balanced, again=False)
                warm = self.batch_in_task >= c.warm_up
                ce = self.balance(self.net(rows)[:, columns], place[of_rows], columns, warm=warm)
                terms["ce_balanced"] = c.balance_weight * ce
        self.descend(torch.stack(list(terms.values())).sum())
        self.memory.update(x, y, self.draws)
        self.batch_in_task += 1
        return {name: term.detach() for name, term in terms.items()}

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """The seen class with the largest logit."""
        with self.evaluating():
            columns, _ = self.columns(self.seen or range(self.problem.n_classes))
            return columns[cast(Tensor, self.net(self.pixels(x)))[:, columns].argmax(1)]
