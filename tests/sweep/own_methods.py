"""A user's plugin with two methods that fail by themselves, and one that does not."""

from __future__ import annotations

import torch
from torch import Tensor

from emi_bench.methods import Losses
from emi_bench.methods.finetune import FineTune


class Fine(FineTune):
    name = "fine"


class Raises(FineTune):
    name = "raises"

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        if self.tasks_done == 1:
            raise RuntimeError("a bug of the user's")
        return super().observe(x, y)


class Diverges(FineTune):
    name = "diverges"

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        return super().observe(x, y) | {"own": torch.tensor(float("nan"))}
