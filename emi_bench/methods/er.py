"""ER: replay random memory samples with each stream batch (Chaudhry et al., arXiv 1902.10486)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from emi_bench.methods.base import Losses, Method


class ER(Method):
    """Two forwards, two means added with weight one each, one optimiser step, then the reservoir.

    Stream and memory are forwarded separately, in this order: each has its own batch statistics and each moves the
    running statistics.
    """

    name = "er"
    title = "ER"

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        images, labels = self.prepare(x, y)
        ce_stream = F.cross_entropy(self.net(images), labels)
        losses = {"ce_stream": ce_stream.detach()}
        total = ce_stream

        replay_images, replay_labels = self.replay()
        if len(replay_images):
            ce_replay = F.cross_entropy(self.net(replay_images), replay_labels)
            losses["ce_replay"] = ce_replay.detach()
            total = ce_stream + ce_replay

        self.descend(total)
        self.memory.update(x, y, self.draws)
        return losses
