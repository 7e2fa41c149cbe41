from __future__ import annotations

import torch

from emi_bench.losses.unit import unit


def test_a_zero_row_stays_zero_and_its_gradient_is_finite() -> None:
    v = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    out = unit(v)
    out.sum().backward()
    assert out[0].tolist() == [0, 0]
    assert v.grad is not None
    assert v.grad.isfinite().all()
