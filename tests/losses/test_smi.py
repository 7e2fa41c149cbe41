"""SMI: the recorded cases with gradients; hand-worked numbers; edge cases."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from emi_bench.losses.smi import smi
from tests.golden_files import golden
from tests.losses.test_rmi import memory, table

CASES = {case["name"]: case for case in golden("emi_smi")["cases"]}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_recorded_values_and_gradients(case: dict[str, Any]) -> None:
    stored, stored_view = memory(case, "memory"), memory(case, "memory_view")
    loss = smi(table(stored), table(stored_view), case["tau"])
    assert loss.item() == pytest.approx(case["loss"], rel=1e-10, abs=1e-12)
    if not stored:
        return
    assert loss.item() + math.log(len(stored)) == pytest.approx(case["loss_without_logK"], rel=1e-10, abs=1e-12)
    assert smi(table(stored), table(stored_view), 0.5).item() == pytest.approx(case["tau_0_5"], rel=1e-10, abs=1e-12)
    for grad, c in zip(torch.autograd.grad(loss, list(stored.values())), stored, strict=True):
        expected = torch.tensor(case["numeric_gradient_mem"][str(c)]).double()
        torch.testing.assert_close(grad, expected, rtol=1e-5, atol=1e-7)


def test_hand_worked_numbers() -> None:
    hand = CASES["hand_K2_tau1"]
    p, p_view = table(memory(hand, "memory")), table(memory(hand, "memory_view"))
    assert smi(p, p_view, 1.0).item() == pytest.approx(-0.394194, abs=1e-6)
    assert smi(p, p_view, 0.5).item() == pytest.approx(-0.577197, abs=1e-6)
    assert smi(-p, -p_view, 1.0).item() == pytest.approx(smi(p, p_view, 1.0).item(), rel=1e-12)


def test_one_prototype_is_exactly_zero_and_none_too() -> None:
    p = torch.tensor([[0.6, 0.8]], requires_grad=True)
    loss = smi(p, torch.tensor([[1.0, 0.0]]), 0.07)
    (grad,) = torch.autograd.grad(loss, p)
    assert loss.item() == 0
    assert grad.tolist() == [[0, 0]]
    assert smi(torch.zeros(0, 0), torch.zeros(0, 0), 0.07).item() == 0


@pytest.mark.parametrize("k", [2, 5, 100])
def test_at_least_minus_log_k(k: int) -> None:
    p = F.normalize(torch.randn(k, 128, generator=torch.Generator().manual_seed(k)))
    assert smi(p, p, 0.07).item() >= -math.log(k) - 1e-6
    assert smi(p, p, 0.001).item() == pytest.approx(-math.log(k), rel=1e-5)


def test_full_precision_under_autocast() -> None:
    p = F.normalize(torch.randn(4, 8, generator=torch.Generator().manual_seed(0)))
    with torch.autocast("cpu", torch.bfloat16):
        loss = smi(p.bfloat16(), p.bfloat16(), 0.07)
    assert loss.dtype == torch.float32
