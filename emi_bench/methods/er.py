"""ER: replay random memory samples with each stream batch (Chaudhry et al., arXiv 1902.10486)."""

from __future__ import annotations

from typing import ClassVar

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from emi_bench.methods.base import Losses, Method, MethodConfig
from emi_bench.problem import Problem


class ERConfig(MethodConfig):
    """The reference framework's defaults: SGD 0.1, one step a batch."""

    mem_iters: int = Field(1, ge=1)
    """Optimiser steps on each stream batch, each with a fresh retrieval; the memory is updated once (reference)."""


class ER(Method):
    """Two forwards, two means added with weight one each, one optimiser step, then the reservoir.

    Stream and memory are forwarded separately, in this order: each has its own batch statistics and each moves the
    running statistics.

    Draws: `replay` (slots, one question a step, also while the memory is empty), `reservoir`.
    """

    name = "er"
    title = "ER"
    cite = "chaudhry2019ER"
    place = 3
    colour = "#56b4e9"
    marker = "o"
    config_class: ClassVar[type[MethodConfig]] = ERConfig
    config: ERConfig

    @classmethod
    def forwards(cls, config: MethodConfig, problem: Problem) -> float:
        return 3.0 * (problem.batch + problem.replay_batch)

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        images, labels = self.prepare(x, y)
        for _ in range(self.config.mem_iters):
            losses = self.step(images, labels)
        self.store(x, y)
        return losses

    def step(self, images: Tensor, labels: Tensor) -> Losses:
        """One optimiser step on a stream batch in network units."""
        ce_stream = F.cross_entropy(self.net(images), labels)
        losses = {"ce_stream": ce_stream.detach()}
        total = ce_stream

        replay_images, replay_labels = self.replay()
        if len(replay_images):
            ce_replay = F.cross_entropy(self.net(replay_images), replay_labels)
            losses["ce_replay"] = ce_replay.detach()
            total = ce_stream + ce_replay

        self.descend(total)
        return losses

    def store(self, x: Tensor, y: Tensor) -> None:
        """Offer the stream batch to the memory, after the last optimiser step."""
        self.memory.update(x, y, self.draws)
