"""Two networks that learn together (CCL-DC)."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from emi_bench.nets.net import Net


class Peers(nn.Module):
    """Logits are the mean of both, features stand side by side."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    @property
    def both(self) -> tuple[nn.Module, nn.Module]:
        return self.first, self.second

    def features(self, x: Tensor) -> Tensor:
        """(n,3,H,W) -> (n,2D)"""
        return torch.cat([cast(Net, peer).features(x) for peer in self.both], 1)

    def forward(self, x: Tensor) -> Tensor:
        """(n,3,H,W) -> (n,C)"""
        one, two = (peer(x) for peer in self.both)
        mean: Tensor = (one + two) / 2
        return mean
