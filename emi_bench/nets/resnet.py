"""The reduced ResNet-18 that every method of the paper uses (Lopez-Paz & Ranzato 2017; He et al. 2016)."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from emi_bench.nets.conv import Conv3x3
from emi_bench.nets.encoder import Encoder
from emi_bench.problem import REDUCED_RESNET18

Pooling = Literal["avg4", "global"]


class BatchNorm2d(nn.BatchNorm2d):
    """Batch normalisation that also takes a single value per channel, where a batch variance does not exist.

    That happens when the last batch of a stream holds one image and the map is 1x1 (8x8 images). The running statistics
    stand in for the batch's then, and are left as they are.
    """

    def forward(self, x: Tensor) -> Tensor:
        if self.training and x.shape[0] * x.shape[2] * x.shape[3] == 1:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        out: Tensor = super().forward(x)
        return out


class BasicBlock(nn.Module):
    """conv3x3-BN-ReLU-conv3x3-BN, plus the shortcut, ReLU. A 1x1 convolution where stride or width changes."""

    def __init__(self, c_in: int, c_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = Conv3x3(c_in, c_out, stride)
        self.bn1 = BatchNorm2d(c_out)
        self.conv2 = Conv3x3(c_out, c_out)
        self.bn2 = BatchNorm2d(c_out)
        self.shortcut = nn.Sequential()
        if stride != 1 or c_in != c_out:
            self.shortcut = nn.Sequential(nn.Conv2d(c_in, c_out, 1, stride, bias=False), BatchNorm2d(c_out))

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)  # in place: a fresh map a block is 7 % of an evaluation
        return F.relu(out, inplace=True)


class ResNet(Encoder):
    """Images (n,3,H,W) to features (n, out_dim): 3x3 stem without max-pool, 4 stages of 2 blocks, widths nf..8nf.

    `pooling="avg4"`: average pool with kernel and stride 4, then flatten channel-major (160 features at 32x32, 640 at
    64x64 and 84x84 for nf=20). `pooling="global"`: 8*nf features at every size.

    >>> import torch
    >>> ResNet(20, image_size=64)(torch.zeros(1, 3, 64, 64)).shape
    torch.Size([1, 640])
    >>> sum(p.numel() for p in ResNet(20).parameters())
    1093140
    """

    name = REDUCED_RESNET18

    def __init__(self, nf: int = 20, *, image_size: int = 32, pooling: Pooling = "avg4") -> None:
        super().__init__()
        self.pooling = pooling
        self.conv1 = nn.Conv2d(3, nf, 3, 1, 1, bias=False)
        self.bn1 = BatchNorm2d(nf)
        self.layer1 = self._stage(nf, nf, 1)
        self.layer2 = self._stage(nf, 2 * nf, 2)
        self.layer3 = self._stage(2 * nf, 4 * nf, 2)
        self.layer4 = self._stage(4 * nf, 8 * nf, 2)
        side = 1 if pooling == "global" else -(-image_size // 8) // 4
        if side < 1:
            raise ValueError(f"images of {image_size} px leave nothing for a 4x4 pool; use pooling='global'")
        self.out_dim = 8 * nf * side * side

    @staticmethod
    def _stage(c_in: int, c_out: int, stride: int) -> nn.Sequential:
        return nn.Sequential(BasicBlock(c_in, c_out, stride), BasicBlock(c_out, c_out, 1))

    def stem(self, x: Tensor) -> Tensor:
        return F.relu(self.bn1(self.conv1(x)), inplace=True)

    def maps(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The outputs of the four stages, h1..h4."""
        h1 = self.layer1(self.stem(x))
        h2 = self.layer2(h1)
        h3 = self.layer3(h2)
        return h1, h2, h3, self.layer4(h3)

    def pool(self, last: Tensor) -> Tensor:
        if self.pooling == "global":
            return last.mean(dim=(2, 3))
        return F.avg_pool2d(last, 4).flatten(1)
