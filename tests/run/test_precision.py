"""bf16 must train: autocast's weight cache outlives optimiser steps inside one context."""

from __future__ import annotations

import torch

from emi_bench.run.loop import _precision
from emi_bench.run.resolve import resolve


def test_bf16_forward_sees_the_weights_of_the_last_optimiser_step() -> None:
    net = torch.nn.Linear(4, 1, bias=False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    outputs = []
    with _precision(resolve("er", "digits", memory=10, seed=0, protocol={"precision": "bf16"}), "cpu"):
        for _ in range(2):
            out = net(torch.ones(2, 4)).sum()
            assert out.dtype == torch.bfloat16
            outputs.append(out.item())
            optimizer.zero_grad()
            out.backward()
            optimizer.step()
    assert outputs[1] < outputs[0]
