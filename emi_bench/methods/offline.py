"""Offline: the same network trained on all tasks together. The upper bound."""

from __future__ import annotations

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from emi_bench.methods.base import Losses, Method, MethodConfig


class OfflineConfig(MethodConfig):
    """The paper states 30 epochs; batch and optimiser are those of the reference framework."""

    epochs: int = Field(30, ge=1)
    """Passes over the union of all tasks (EMI paper)."""
    batch: int = Field(128, ge=1)
    """Samples a step; the last incomplete batch of an epoch is left out (reference framework)."""


class Offline(Method):
    """Cross-entropy on shuffled batches of the whole data set. The loop reads `joint`, `epochs` and `batch`."""

    name = "offline"
    title = "offline"
    uses_memory = False
    joint = True
    config_class = OfflineConfig
    config: OfflineConfig

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        images, labels = self.prepare(x, y)
        ce = F.cross_entropy(self.net(images), labels)
        self.descend(ce)
        self.memory.n_seen += len(x)
        return {"ce_stream": ce.detach()}
