"""The formula-defined toy data and network behind the recorded traces of the replay family."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn

from emi_bench.draws import Draws
from emi_bench.problem import Problem


class ToyNet(nn.Module):
    """Linear(12,6,no bias) BN ReLU Linear(6,4); `view` takes images in the plain layout only, as a toy net may."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(12, 6, bias=False)
        self.bn = nn.BatchNorm1d(6)
        self.linear = nn.Linear(6, 4)

    def features(self, x: Tensor) -> Tensor:
        return torch.relu(self.bn(self.fc1(x.view(len(x), -1))))

    def logits(self, features: Tensor) -> Tensor:
        return self.linear(features)

    def forward(self, x: Tensor) -> Tensor:
        return self.logits(self.features(x))


def toy_net(state: dict[str, Any], dtype: torch.dtype = torch.float32) -> ToyNet:
    net = ToyNet().to(dtype)
    tensors = OrderedDict((k, torch.tensor(v, dtype=dtype)) for k, v in state.items())
    missing, unexpected = net.load_state_dict(tensors, strict=False)
    assert not unexpected
    assert set(missing) <= {"bn.num_batches_tracked"}
    return net


def samples(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """32 samples (3,2,2), class = s // 8: x = 0.5 + 0.5 sin(0.37 s (e+1) + class)"""
    s = torch.arange(32, dtype=torch.float64)[:, None]
    e = torch.arange(12, dtype=torch.float64)[None]
    y = torch.arange(32) // 8
    x = 0.5 + 0.5 * torch.sin(0.37 * s * (e + 1) + y[:, None])
    return x.to(dtype).view(32, 3, 2, 2), y


def replay_problem(**changes: Any) -> Problem:
    values = {"dataset": "toy", "n_classes": 4, "n_tasks": 2, "image_size": 2, "memory": 6, "batch": 4}
    return Problem(**(values | changes))


def mirrored_and_dimmed(images: Tensor, draws: Draws) -> Tensor:
    """The view of the modern traces."""
    return 0.9 * images.flip(3) + 0.05
