"""The 3x3 convolution on the smallest maps: the same values and gradients as torch's, in the same layout."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from emi_bench.nets import conv
from emi_bench.nets.conv import Conv3x3


@pytest.mark.parametrize(("side", "stride", "bias"), [(1, 1, False), (1, 2, False), (2, 1, True), (2, 2, False)])
def test_the_smallest_maps_give_what_the_plain_convolution_gives(side, stride, bias):
    torch.manual_seed(0)
    layer = Conv3x3(3, 5, stride, bias=bias).double()
    images = torch.randn(conv.MANY_ROWS, 3, side, side, dtype=torch.float64)
    images = images.contiguous(memory_format=torch.channels_last).requires_grad_()
    plain = F.conv2d(images, layer.weight, layer.bias, stride, 1)
    ours = layer(images)
    assert ours.shape == plain.shape
    assert not torch.equal(ours, torch.zeros_like(ours))
    torch.testing.assert_close(ours, plain, rtol=0, atol=1e-12)
    assert ours.is_contiguous(memory_format=torch.channels_last)
    pull = torch.randn_like(plain)
    wanted = (images, *layer.parameters())
    for a, b in zip(torch.autograd.grad(ours, wanted, pull), torch.autograd.grad(plain, wanted, pull), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("rows", "side", "dense"), [(1023, 1, False), (1024, 2, True), (1024, 3, False)])
def test_small_batches_and_larger_maps_keep_the_plain_convolution(monkeypatch, rows, side, dense):
    called = []
    matrix = conv.dense
    monkeypatch.setattr(conv, "dense", lambda *args: (called.append(args), matrix(*args))[1])
    Conv3x3(2, 2)(torch.randn(rows, 2, side, side))
    assert bool(called) == dense
    called.clear()
    with torch.no_grad():
        Conv3x3(2, 2)(torch.randn(rows, 2, side, side))
    assert not called
