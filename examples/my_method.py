"""Class-balanced ER: replay the same number of stored images of every class. A method of your own, in one file.

emi-bench run --plugin examples/my_method.py --method balanced_er --dataset digits --memory 100
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from emi_bench.methods import Losses, Method, MethodConfig


class BalancedConfig(MethodConfig):
    """Every constant is a field with a sentence under it; all of them enter the run's id."""

    replay_weight: float = Field(1.0, ge=0)
    """Weight of the replay loss."""


class BalancedER(Method):
    """ER whose replay batch holds the classes in equal shares.

    Draws: "balanced.<class>" (slots of a class), "reservoir".
    """

    name = "balanced_er"
    title = "Balanced ER"
    version = 1
    config_class: ClassVar[type[MethodConfig]] = BalancedConfig
    config: BalancedConfig

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        images, labels = self.prepare(x, y)  # pixels in network units and labels, both on the device
        ce_stream = F.cross_entropy(self.net(images), labels)
        losses, total = {"ce_stream": ce_stream.detach()}, ce_stream

        classes = self.memory.classes()
        if classes:
            share = max(1, self.problem.replay_batch // len(classes))
            picked = [self.draws.pick(f"balanced.{c}", self.memory.slots_of(c), share) for c in classes]
            replay_x, replay_y = self.memory.at(torch.cat(picked))
            ce_replay = F.cross_entropy(self.net(self.pixels(replay_x)), replay_y)
            losses["ce_replay"] = ce_replay.detach()
            total = total + self.config.replay_weight * ce_replay

        self.descend(total)
        self.memory.update(x, y, self.draws)
        return losses
