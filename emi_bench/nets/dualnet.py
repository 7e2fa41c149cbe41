"""DualNet (Pham et al., NeurIPS 2021), the backbone of EMI: a slow encoder and a fast net that gates its maps."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from emi_bench.nets.conv import Conv3x3
from emi_bench.nets.net import Net
from emi_bench.nets.resnet import BatchNorm2d, ResNet

FastWiring: TypeAlias = Literal["chain", "same_level"]
Maps: TypeAlias = tuple[Tensor, Tensor, Tensor, Tensor]


class Gate(nn.Module):
    """What a slow map is multiplied with: conv3x3 (with bias)-BN-ReLU, then a 2x2 max-pool where the map is smaller.

    The gate is not bounded from above. A gate with other layers can be put in its place: `FastNet` only calls it.
    """

    def __init__(self, c_in: int, c_out: int, *, pool: bool) -> None:
        super().__init__()
        self.conv = Conv3x3(c_in, c_out, bias=True)
        self.bn = BatchNorm2d(c_out)
        self.pool = pool

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn(self.conv(x))
        if self.pool:
            # Before the ReLU, with which it commutes: a quarter of the work, the same values and gradients.
            out = F.max_pool2d(out, 2, ceil_mode=True)
        return F.relu(out, inplace=True)


class FastNet(nn.Module):
    """The fast net h: images (n,3,H,W) and the slow maps h1..h4 to the gated maps.

    `chain` (the published wiring): `m1 = f1(x) * h1`, `m_i = f_i(m_{i-1}) * h_i`. `same_level` (the equation of the EMI
    paper read literally): `m_i = f_i(h_i) * h_i`, of which only level 4 reaches the classifier, so only f4 is built.
    """

    f4: Gate

    def __init__(self, nf: int, wiring: FastWiring = "chain") -> None:
        super().__init__()
        self.wiring = wiring
        if wiring == "chain":
            self.f1 = Gate(3, nf, pool=False)
            self.f2 = Gate(nf, 2 * nf, pool=True)
            self.f3 = Gate(2 * nf, 4 * nf, pool=True)
            self.f4 = Gate(4 * nf, 8 * nf, pool=True)
        else:
            self.f4 = Gate(8 * nf, 8 * nf, pool=False)

    def maps(self, x: Tensor, slow: Maps) -> tuple[Tensor, ...]:
        """The gated maps: m1..m4, or m4 alone."""
        h1, h2, h3, h4 = slow
        if self.wiring == "same_level":
            return (self.f4(h4) * h4,)
        m1 = self.f1(x) * h1
        m2 = self.f2(m1) * h2
        m3 = self.f3(m2) * h3
        return m1, m2, m3, self.f4(m3) * h4

    def forward(self, x: Tensor, slow: Maps) -> Tensor:
        return self.maps(x, slow)[-1]


class DualNet(Net):
    """Slow net f (`slow`), fast net h (`fast`), heads g (`slow_proj`) and g' (`proj`), classifier phi (`linear`).

    `features` are the fast ones: the classifier and `proj` work on them. `slow_proj` is set by who has
    a loss for it, else there is none. With `detach_slow` no gradient of the fast path reaches the slow net.

    >>> net = DualNet(ResNet(2, pooling="global"), 10, proj=nn.Linear(16, 12))
    >>> fast, slow = net.both(torch.zeros(1, 3, 32, 32))
    >>> fast.shape, slow.shape, net(torch.zeros(1, 3, 32, 32)).shape
    (torch.Size([1, 16]), torch.Size([1, 16]), torch.Size([1, 10]))
    >>> sum(p.numel() for p in FastNet(20).parameters())
    152640
    """

    slow: ResNet

    def __init__(
        self,
        encoder: ResNet,
        n_classes: int,
        *,
        proj: nn.Module,
        fast_net: FastWiring = "chain",
        detach_slow: bool = False,
    ) -> None:
        super().__init__(encoder, n_classes, proj=proj)
        self.fast = FastNet(encoder.conv1.out_channels, fast_net)
        self.detach_slow = detach_slow

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Fast and slow features of images (n,3,H,W), (n,D) each."""
        maps = self.slow.maps(x)
        return self._fast(x, maps), self.slow.pool(maps[-1])

    def features(self, x: Tensor) -> Tensor:
        """The fast features (n,D)."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.detach_slow):
            maps = self.slow.maps(x)
        return self._fast(x, maps)

    def _fast(self, x: Tensor, maps: Maps) -> Tensor:
        if self.detach_slow:
            h1, h2, h3, h4 = maps
            maps = h1.detach(), h2.detach(), h3.detach(), h4.detach()
        m4: Tensor = self.fast(x, maps)
        return self.slow.pool(m4)


def mlp_head(d: int, hidden: int = 256) -> nn.Sequential:
    """DualNet's projector, (n,d) -> (n,d): Linear-BN-ReLU-Linear without biases."""
    layers = (nn.Linear(d, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, d, bias=False))
    return nn.Sequential(*layers)
