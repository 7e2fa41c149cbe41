"""Fine-tune: plain single-pass SGD, no memory. The lower bound."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from emi_bench.methods.base import Losses, Method, MethodConfig
from emi_bench.problem import Problem


class FineTune(Method):
    """The stream's cross-entropy and nothing else."""

    name = "finetune"
    title = "fine-tune"
    place = 0
    role = "bound"
    colour = "#8c8c8c"
    line = ":"
    uses_memory = False

    @classmethod
    def forwards(cls, config: MethodConfig, problem: Problem) -> float:
        return 3.0 * problem.batch

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        images, labels = self.prepare(x, y)
        ce = F.cross_entropy(self.net(images), labels)
        self.descend(ce)
        self.memory.n_seen += len(x)
        return {"ce_stream": ce.detach()}
