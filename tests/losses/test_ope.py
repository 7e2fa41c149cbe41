"""OPE: the recorded values, prototypes and gradients, and the hand-worked numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from emi_bench.losses.ope import ope
from emi_bench.losses.prototypes import class_means
from tests.golden_files import golden


@pytest.mark.parametrize("case", golden("onpro_ope")["cases"], ids=lambda c: f"task{c['task_id']}")
def test_recorded_values_prototypes_and_gradients(case: dict[str, Any]) -> None:
    z1 = torch.tensor(case["z1_unnormalised"], requires_grad=True)
    z2 = torch.tensor(case["z2_unnormalised"], requires_grad=True)
    classes = sorted(set(case["labels"]))
    owner = torch.tensor([classes.index(c) for c in case["labels"]])
    means = [class_means(F.normalize(z, dim=1), owner, len(classes)) for z in (z1, z2)]
    loss = ope(F.normalize(means[0], dim=1), F.normalize(means[1], dim=1), case["tau"])
    assert loss.item() == pytest.approx(case["loss"], rel=1e-6, abs=1e-7)
    grads = torch.autograd.grad(loss, (z1, z2))
    for grad, name in zip(grads, ("grad_z1", "grad_z2"), strict=True):
        torch.testing.assert_close(grad, torch.tensor(case[name]), rtol=1e-5, atol=1e-6)
    table = torch.tensor(case["proto1"])
    torch.testing.assert_close(means[0], table[classes], rtol=1e-6, atol=1e-7)
    torch.testing.assert_close((means[0] + means[1]) / 2, torch.tensor(case["classes_mean"])[classes])
    assert sorted(table.abs().sum(1).nonzero()[:, 0].tolist()) == classes


def test_one_class_is_zero_with_zero_gradient() -> None:
    p = torch.tensor([[0.6, 0.8]], requires_grad=True)
    loss = ope(p, torch.tensor([[1.0, 0.0]]), 0.5)
    (grad,) = torch.autograd.grad(loss, p)
    assert loss.item() == 0
    assert grad.tolist() == [[0, 0]]


def test_no_class_is_zero() -> None:
    assert ope(torch.zeros(0, 3), torch.zeros(0, 3), 0.5).item() == 0


def test_hand_worked_numbers() -> None:
    same = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    assert ope(same, same, 0.5).item() == pytest.approx(math.log(3), rel=1e-6)
    assert ope(torch.eye(2), torch.eye(2), 0.5).item() == pytest.approx(0.239545, rel=1e-5)


def test_symmetric_in_the_views() -> None:
    p, q = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(0)).double()
    assert ope(p, q, 0.5).item() == pytest.approx(ope(q, p, 0.5).item(), rel=1e-12)
