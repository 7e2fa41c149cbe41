"""Flat gradients: an order-preserving round trip for every memory layout."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from emi_bench.nets.gradients import flat_gradient, set_flat_gradient


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_round_trip_keeps_values_and_layout(layout: torch.memory_format) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8 * 36, 4)).to(
        memory_format=layout
    )
    parameters = list(net.parameters())
    net(torch.rand(2, 3, 8, 8).contiguous(memory_format=layout)).square().sum().backward()
    parameters[1].grad = None
    expected = [None if p.grad is None else p.grad.clone() for p in parameters]
    flat = flat_gradient(parameters)
    assert flat.shape == (sum(p.numel() for p in parameters) - parameters[1].numel(),)
    set_flat_gradient(parameters, flat * 2)
    for p, old in zip(parameters, expected, strict=True):
        if old is None:
            assert p.grad is None
        else:
            assert torch.equal(p.grad, 2 * old)
            assert p.grad.stride() == p.stride()
