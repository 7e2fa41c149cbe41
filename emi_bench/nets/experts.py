"""MOSE's network: a classifier and a projection after each of the four stages (Yan et al., CVPR 2024)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from emi_bench.nets.resnet import BatchNorm2d, ResNet


class Down(nn.Sequential):
    """Halve the map: two depthwise-separable convolutions, the first with stride 2, each with BN and ReLU."""

    def __init__(self, c_in: int, c_out: int) -> None:
        super().__init__(
            nn.Conv2d(c_in, c_in, 3, 2, 1, groups=c_in, bias=False),
            nn.Conv2d(c_in, c_in, 1, bias=False),
            BatchNorm2d(c_in),
            nn.ReLU(inplace=True),
            nn.Conv2d(c_in, c_in, 3, 1, 1, groups=c_in, bias=False),
            nn.Conv2d(c_in, c_out, 1, bias=False),
            BatchNorm2d(c_out),
            nn.ReLU(inplace=True),
        )


def attention(channels: int) -> nn.Sequential:
    """A map in 0-1 of the size of a stage's output, which it is multiplied onto; its sides must be even."""
    up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
    return nn.Sequential(Down(channels, channels), BatchNorm2d(channels), nn.ReLU(inplace=True), up, nn.Sigmoid())


class ExpertNet(nn.Module):
    """The reduced ResNet-18 with an expert after every stage: attention, alignment to D = 8 nf channels by as many
    `Down` as stages are left, global average, a linear classifier and a linear projection.

    `final` transforms the last expert's feature for distillation, in training only. The source's unused mixture layer
    is not built. Images need sides divisible by 8.

    >>> net = ExpertNet(ResNet(20, pooling="global"), 10)
    >>> sum(p.numel() for p in net.parameters())
    1304492
    >>> net.experts(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([4, 2, 160])
    """

    def __init__(self, encoder: ResNet, n_classes: int, proj_dim: int = 128) -> None:
        super().__init__()
        self.slow = encoder
        dim = encoder.out_dim
        widths = [dim // 8, dim // 4, dim // 2]
        self.linear = nn.ModuleList(nn.Linear(dim, n_classes) for _ in range(4))
        self.proj = nn.ModuleList(nn.Linear(dim, proj_dim) for _ in range(4))
        self.align = nn.ModuleList(nn.Sequential(*(Down(w, 2 * w) for w in widths[i:])) for i in range(3))
        self.attention = nn.ModuleList(attention(w) for w in widths)
        self.final = nn.Linear(dim, dim)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def experts(self, x: Tensor) -> Tensor:
        """(n,3,H,W) -> f_1 .. f_4, (4,n,D)"""
        *shallow, last = self.slow.maps(x)
        branches = zip(shallow, self.attention, self.align, strict=True)
        maps = [*(align(att(m) * m) for m, att, align in branches), last]
        return torch.stack([h.mean(dim=(2, 3)) for h in maps])

    def features(self, x: Tensor) -> Tensor:
        """(n,3,H,W) -> (n,D), of the last expert"""
        return self.slow.pool(self.slow.maps(x)[-1])

    def logits(self, features: Tensor) -> Tensor:
        """(4,n,D) -> (4,n,C)"""
        return of_each(self.linear, features)

    def projections(self, features: Tensor) -> Tensor:
        """(4,n,D) -> (4,n,d)"""
        return of_each(self.proj, features)

    def forward(self, x: Tensor) -> Tensor:
        """(n,3,H,W) -> (n,C), the mean of the experts' logits"""
        return self.logits(self.experts(x)).mean(0)


def of_each(heads: nn.ModuleList, features: Tensor) -> Tensor:
    """Each linear head on its own features, (E,n,D) -> (E,n,K), in one product."""
    weight, bias = (torch.stack([getattr(head, part) for head in heads]) for part in ("weight", "bias"))
    return torch.baddbmm(bias[:, None], features, weight.mT)
