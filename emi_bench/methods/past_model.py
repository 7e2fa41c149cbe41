"""The past model of OCM and EMI: a copy of the network, made when a task ends, that teaches the next task."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, cast

import torch
import torch.nn.functional as F

from emi_bench.losses.ntx import cosines, ntx_pre
from emi_bench.losses.unit import unit
from emi_bench.methods.base import Losses, MethodConfig
from emi_bench.methods.mutual_information import Batch, Joint, MutualInformation
from emi_bench.problem import Problem


class PastModel(MutualInformation):
    """Keeps the model of the last task end as a teacher (OCM, EMI). Not a method by itself.

    The teacher is in training mode, as the copy that OCM makes before it evaluates: its batch norms use the statistics
    of the batch at hand. No gradient is computed for it. It is part of `state_dict()` from the beginning, unused in the
    first task.
    """

    def __init__(self, config: MethodConfig, problem: Problem, **parts: Any) -> None:
        super().__init__(config, problem, **parts)
        self.teacher = deepcopy(self.net).requires_grad_(False)
        self.old_classes: list[int] = []

    def end_task(self) -> None:
        super().end_task()
        self.teacher.load_state_dict(self.net.state_dict())
        self.old_classes = sorted(self.seen)

    def past_term(self, joint: Joint) -> Losses:
        """`ntx_pre`: projections of the plain replayed arrangements, now against the past model's; from task 2 on."""
        if not self.tasks_done or joint.features.shape[2] == joint.n_stream:
            return {}
        rows = (slice(None), slice(joint.n_stream, None))
        teacher = cast(Any, self.teacher)
        images = joint.plain[rows].flatten(0, 1).contiguous(memory_format=self.layout)
        with torch.no_grad():
            past = unit(teacher.proj(teacher.features(images)))
        now = joint.projections[0][rows].flatten(0, 1)
        return {"ntx_pre": ntx_pre(cosines(now, past), joint.labels[rows].flatten(), self.config.tau)}

    def classify(self, batch: Batch, *, augment: bool = True, logit_mse: bool = True) -> Losses:
        """`ce` on the replay batch (on the stream batch while there is none) in a forward of its own; with `logit_mse`
        also `mse`, the distance of the old classes' logits from the past model's on another view.
        """
        replayed = len(batch.replay_y) > 0
        images, labels = (batch.replay_images, batch.replay_labels) if replayed else (batch.images, batch.labels)
        logits = self.net(self.view_of(images) if augment else images)
        losses = {"ce": F.cross_entropy(logits, labels)}
        if logit_mse and replayed and self.tasks_done:
            with torch.no_grad():
                past = self.teacher(self.view_of(images) if augment else images)
            old = torch.tensor(self.old_classes).to(self.device, non_blocking=True)
            losses["mse"] = F.mse_loss(logits[:, old], past[:, old])
        return losses

    def get_extra_state(self) -> dict[str, Any]:
        return super().get_extra_state() | {"old_classes": list(self.old_classes)}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        super().set_extra_state(state)
        self.old_classes = list(state["old_classes"])
