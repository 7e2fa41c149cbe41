"""The helper network whose gradients SSD matches: the ConvNet of dataset condensation (Zhao et al., 2006.05929)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class ConvNet(nn.Module):
    """Three blocks of conv3x3, instance norm, ReLU and 2x2 average pool, then a linear classifier.

    Instance norm is a group norm with as many groups as channels, with weight and bias. Images under 8 pixels get as
    many blocks as they can be halved.

    >>> net = ConvNet(10, image_size=32)
    >>> net.num_feat, sum(p.numel() for p in net.parameters())
    (2048, 320010)
    """

    def __init__(self, n_classes: int, *, image_size: int, width: int = 128, depth: int = 3) -> None:
        super().__init__()
        depth = min(depth, image_size.bit_length() - 1)
        widths = [3] + [width] * depth
        conv = nn.ModuleList(nn.Conv2d(c_in, width, 3, padding=1) for c_in in widths[:-1])
        norm = nn.ModuleList(nn.GroupNorm(width, width) for _ in range(depth))
        self.layers = nn.ModuleDict({"conv": conv, "norm": norm})
        self.num_feat = width * (image_size // 2**depth) ** 2
        self.classifier = nn.Linear(self.num_feat, n_classes)

    def features(self, x: Tensor) -> Tensor:
        """(n,3,H,W) -> (n, num_feat), channel-major"""
        for conv, norm in zip(self.layers["conv"], self.layers["norm"], strict=True):  # type: ignore[call-overload]
            x = F.avg_pool2d(F.relu(norm(conv(x))), 2)
        return x.flatten(1)

    def logits(self, features: Tensor) -> Tensor:
        """(n, num_feat) -> (n, n_classes)"""
        out: Tensor = self.classifier(features)
        return out

    def forward(self, x: Tensor) -> Tensor:
        """(n,3,H,W) -> (n, n_classes)"""
        return self.logits(self.features(x))
