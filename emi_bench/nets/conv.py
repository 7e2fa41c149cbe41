"""The 3x3 convolution of the networks, with a quicker way for the smallest maps on a CPU."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

#: From so many rows on. Smaller batches keep the convolution as it is, and with it the bits of stored results.
MANY_ROWS = 1024


class Conv3x3(nn.Conv2d):
    """A 3x3 convolution with padding 1, on the smallest maps as one matrix product.

    On a 1x1 map eight of nine taps meet padding only, on a 2x2 map five of nine, and oneDNN's backward pass there is 5
    to 20 times slower than a product with the taps that count. The same sums, up to the order of their terms. Without a
    backward pass nothing is gained, and evaluation stays as it is.
    """

    def __init__(self, c_in: int, c_out: int, stride: int = 1, *, bias: bool = False) -> None:
        super().__init__(c_in, c_out, 3, stride, 1, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        n, _, h, w = x.shape
        if n < MANY_ROWS or h != w or h > 2 or x.device.type != "cpu" or not torch.is_grad_enabled():
            return super().forward(x)
        side = -(-h // self.stride[0])
        bias = None if self.bias is None else self.bias.repeat(side * side)
        flat = F.linear(x.permute(0, 2, 3, 1).reshape(n, -1), dense(self.weight, h, self.stride[0]), bias)
        return flat.view(n, side, side, -1).permute(0, 3, 1, 2)


def dense(kernel: Tensor, side: int, stride: int) -> Tensor:
    """A kernel (out,in,3,3) as a matrix from a whole map of `side` x `side` pixels to the next, channels innermost.

    >>> dense(torch.arange(9.0).view(1, 1, 3, 3), 2, 1)
    tensor([[4., 5., 7., 8.],
            [3., 4., 6., 7.],
            [1., 2., 4., 5.],
            [0., 1., 3., 4.]])
    >>> dense(torch.arange(9.0).view(1, 1, 3, 3), 2, 2)
    tensor([[4., 5., 7., 8.]])
    """
    rows = []
    for y in range(0, side, stride):
        for x in range(0, side, stride):
            part = kernel[:, :, 1 - y : 1 - y + side, 1 - x : 1 - x + side]
            rows.append(part.permute(0, 2, 3, 1).flatten(1))
    return torch.cat(rows)
