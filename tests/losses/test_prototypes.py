from __future__ import annotations

import torch
from torch import Tensor

from emi_bench.losses.prototypes import class_means, prototypes


def rows() -> tuple[Tensor, Tensor]:
    u = torch.randn(9, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return u / u.norm(dim=1, keepdim=True), torch.tensor([2, 0, 2, 1, 0, 0, 2, 2, 1])


def test_equals_a_loop_over_classes() -> None:
    u, owner = rows()
    means = class_means(u, owner, 3)
    for c in range(3):
        torch.testing.assert_close(means[c], u[owner == c].mean(0))
        mean = u[owner == c].mean(0)
        torch.testing.assert_close(prototypes(u, owner, 3)[c], mean / mean.norm())
    assert torch.equal(prototypes(u, owner, 3, renorm=False), means)


def test_a_class_without_rows_is_zero_and_leaves_finite_gradients() -> None:
    u, owner = rows()
    u.requires_grad_()
    table = prototypes(u, owner, 5)
    table.sum().backward()
    assert table[3:].abs().max() == 0
    assert u.grad is not None
    assert u.grad.isfinite().all()


def test_opposite_rows_cancel_without_nan() -> None:
    u = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], requires_grad=True)
    table = prototypes(u, torch.tensor([0, 0]), 1)
    table.sum().backward()
    assert table.tolist() == [[0, 0]]
    assert u.grad is not None
    assert u.grad.isfinite().all()


def test_gradients_reach_every_sample() -> None:
    u, owner = rows()
    assert torch.autograd.gradcheck(lambda x: prototypes(x, owner, 3), u.requires_grad_())


def test_full_precision_under_autocast() -> None:
    u, owner = rows()
    with torch.autocast("cpu", torch.bfloat16):
        assert prototypes(u.bfloat16(), owner, 3).dtype == torch.float32
