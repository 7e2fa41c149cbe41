"""MOSE: an expert after every stage, and the last learns from the others (Yan et al., CVPR 2024, arXiv 2404.00417)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal, Self, cast

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from emi_bench.data.views import grey_crop_view
from emi_bench.errors import UserError
from emi_bench.losses.distillation import reverse_distillation
from emi_bench.losses.supcon import supcon_of_experts
from emi_bench.methods.base import Losses, MethodConfig, View
from emi_bench.methods.task_classes import TaskClasses, TaskClassesConfig
from emi_bench.nets import ResNet
from emi_bench.nets.backbones import need_reduced
from emi_bench.nets.experts import ExpertNet
from emi_bench.nets.heads import normalised
from emi_bench.nets.ncm import memory_means, squared_distances
from emi_bench.problem import Problem


class MOSEConfig(TaskClassesConfig):
    """The constants of the source."""

    tau: float = Field(0.07, gt=0)
    """Temperature of the contrastive loss (source)."""
    proj_dim: int = Field(128, ge=1)
    """Outputs of each expert's projection, one linear layer (source)."""
    replay_class_cap: int = Field(7, ge=1)
    """At most this many images of earlier tasks per class seen so far (source)."""
    classifier: Literal["ncm", "linear"] = "ncm"
    """Nearest class mean of the stored images for each expert, or its linear head (source: both, ncm by default)."""
    judged: Literal["mixture", "expert"] = "mixture"
    """What the run is judged by: the experts together (MOSE-MOE, the source's headline) or the last one alone (MOSE).
    The others are stored beside it."""

    family_pooling: ClassVar[Literal["avg4", "global"]] = "global"

    @classmethod
    def modern(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        return {}  # its source trains the wide network with these constants

    def resolve(self, problem: Problem) -> Self:
        need_reduced(problem.backbone, "MOSE's experts work on")
        if problem.image_size % 8:
            hint = "use a data set with images of 8, 32 or 64 pixels, or protocol.image_size"
            raise UserError(f"MOSE's experts need image sides divisible by 8, not {problem.image_size}", hint=hint)
        return super().resolve(problem)


class MOSE(TaskClasses):
    """For each expert: a contrastive loss over all rows, cross-entropies, and but for the last a distillation into the
    last. A = [stream; current task's memory], later also B = [some of the stream; earlier tasks' memory].

    Every image comes as [image; mirror image; a view of either]; one forward of all. The first batch of a run is only
    stored. The network needs `experts(x)` (four features), `logits` and `projections` of these, and `final`.
    Draws: `current`, `old` (slots), those of the view (once a step), `reservoir`; `mean.<class>` when predicting.
    """

    name = "mose"
    title = "MOSE"
    cite = "yan2024mose"
    colour = "#2ca089"
    marker = "*"
    config_class = MOSEConfig
    config: MOSEConfig
    _means: tuple[Tensor, Tensor] | None = None  # each expert's class means, and their ids, until a step

    @classmethod
    def make_net(cls, config: MethodConfig, problem: Problem) -> nn.Module:
        encoder = cls.make_encoder(config, problem)
        assert isinstance(encoder, ResNet)
        return ExpertNet(encoder, problem.n_classes, cast(MOSEConfig, config).proj_dim)

    @classmethod
    def make_view(cls, config: MethodConfig, problem: Problem) -> View:
        return partial(grey_crop_view, grey_p=0.25, area=0.3)

    @classmethod
    def forwards(cls, config: MethodConfig, problem: Problem) -> float:
        rows = problem.replay_batch // 2 + problem.replay_batch
        return 12.0 * 1.05 * rows

    @property
    def experts(self) -> ExpertNet:
        return cast(ExpertNet, self.net)

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        self._means = None
        images, labels = self.prepare(x, y)
        terms = self.step(images, labels) if self.memory.filled else {}
        self.memory.update(x, y, self.draws)
        self.batch_in_task += 1
        return terms

    def step(self, images: Tensor, labels: Tensor) -> Losses:
        replay, b = self.problem.replay_batch, self.problem.batch
        first_task = self.tasks_done == 0
        n_current = replay if first_task else max(0, replay // 2 - b)
        parts = [(images, labels), self.stored("current", self.new_classes, n_current)]
        n_new = sum(len(part) for _, part in parts)  # rows of A, the rest are of B
        if not first_task:
            n_stream = min(int(replay * len(self.new_classes) / len(self.seen)), b)
            n_old = min(replay - n_stream, self.config.replay_class_cap * len(self.seen))
            parts += [(images[:n_stream], labels[:n_stream]), self.stored("old", self.earlier_classes, n_old)]
        rows, of_rows = self.fourfold(*(torch.cat(part) for part in zip(*parts, strict=True)))

        features = self.experts.experts(rows)
        projections = normalised(self.experts.projections(features))
        terms = {
            "supcon": supcon_of_experts(projections, of_rows, self.config.tau),
            "ce": self.classify(self.experts.logits(features), of_rows, n_new),
            "distill": reverse_distillation(self.experts.final(features[-1]), features[:-1]),
        }
        self.descend(torch.stack(list(terms.values())).sum())
        return {name: term.detach() for name, term in terms.items()}

    def fourfold(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """[a; mirror(a); V(a); V(mirror(a))] with the labels of a."""
        two = torch.cat([images, images.flip(3)])
        return torch.cat([two, self.view_of(two)]), labels.repeat(4)

    def classify(self, logits: Tensor, labels: Tensor, n_new: int) -> Tensor:
        """All rows over all classes in the first task; later twice the rows of B, and those of A among new classes."""
        every = logits.view(len(logits), 4, -1, logits.shape[2])  # of each expert [A; B] four times
        labels = labels.view(1, 4, -1).expand(every.shape[:3])
        if self.tasks_done == 0:
            return sum_of_means(every, labels)
        columns, place = self.columns(self.new_classes)
        ce = sum_of_means(every[:, :, :n_new, columns], place[labels[:, :, :n_new]])
        balanced = labels.shape[2] > n_new
        return ce + 2 * sum_of_means(every[:, :, n_new:], labels[:, :, n_new:]) if balanced else ce

    # --- prediction ------------------------------------------------------------------------------------------------

    def distances(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Squared distances (4,n,K) of unit features to each expert's class means, and the classes (K,)."""
        if self._means is None:
            seen = self.seen or list(range(self.problem.n_classes))
            means = memory_means(lambda x: self.experts.experts(self.pixels(x)), self.memory, seen, self.draws)
            self._means = means, torch.tensor(seen, device=self.device)
        means, classes = self._means
        return squared_distances(features, means), classes

    @torch.no_grad()
    def predictions(self, x: Tensor) -> dict[str, Tensor]:
        with self.evaluating():
            features = self.experts.experts(self.pixels(x))
            if self.config.classifier == "ncm":
                apart, classes = self.distances(features)
            else:
                logits = self.experts.logits(features)
                apart, classes = -logits, torch.arange(self.problem.n_classes, device=self.device)
        said = {f"expert {i}": classes[alone.argmin(1)] for i, alone in enumerate(apart, 1)}
        said["mixture"] = classes[apart.mean(0).argmin(1)]
        return {"": said.pop("mixture" if self.config.judged == "mixture" else "expert 4")} | said

    def predict(self, x: Tensor) -> Tensor:
        return self.predictions(x)[""]

    def set_extra_state(self, state: dict[str, Any]) -> None:
        super().set_extra_state(state)
        self._means = None


def sum_of_means(logits: Tensor, labels: Tensor) -> Tensor:
    """The sum over the experts of each one's cross-entropy, (E,4,n,K) and (E,4,n): all have as many rows."""
    return len(logits) * F.cross_entropy(logits.flatten(0, 2), labels.flatten())
