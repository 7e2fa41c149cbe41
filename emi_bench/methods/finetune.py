"""Fine-tune: plain single-pass SGD, no memory. The lower bound."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from emi_bench.methods.base import Losses, Method


class FineTune(Method):
    """The stream's cross-entropy and nothing else."""

    name = "finetune"
    title = "fine-tune"
    uses_memory = False

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        images, labels = self.prepare(x, y)
        ce = F.cross_entropy(self.net(images), labels)
        self.descend(ce)
        self.memory.n_seen += len(x)
        return {"ce_stream": ce.detach()}
