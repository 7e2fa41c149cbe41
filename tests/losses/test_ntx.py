"""NTX_n, NTX_uni, NTX_pre: the recorded values and gradients, the hand-worked numbers, the invariants."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from emi_bench.losses.ntx import cosines, ntx_n, ntx_pre, ntx_uni, similarity
from emi_bench.losses.unit import unit
from tests.golden_files import golden

Loss = Callable[[Tensor, Tensor, float], Tensor]
LOSSES: dict[str, Loss] = {"n": ntx_n, "uni": ntx_uni, "pre": ntx_pre}


def rows_labels(fn: str, labels: list[float]) -> Tensor:
    once = torch.tensor(labels).long()
    return once if fn.endswith("pre") else once.repeat(2)


@pytest.mark.parametrize("case", golden("ocm_losses")["cases"], ids=lambda c: f"{c['case']}-{c['fn'][19:]}-{c['tau']}")
def test_recorded_values_and_gradients(case: dict[str, Any]) -> None:
    s = torch.tensor(case["sim"], dtype=torch.float64, requires_grad=True)
    loss = LOSSES[case["fn"].rsplit("_", 1)[1]](s, rows_labels(case["fn"], case["labels"]), case["tau"])
    assert loss.item() == pytest.approx(case["loss"], rel=1e-6)
    (grad,) = torch.autograd.grad(loss, s)
    expected = torch.tensor(case["grad_sim"], dtype=torch.float64)
    torch.testing.assert_close(grad, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("tau", [1.0, 0.07])
def test_hand_written_gradient_passes_gradcheck(loss: Loss, tau: float) -> None:
    generator = torch.Generator().manual_seed(0)
    s = torch.rand(6, 6, generator=generator, dtype=torch.float64).requires_grad_()
    labels = torch.tensor([0, 1, 0, 0, 1, 0])
    assert torch.autograd.gradcheck(lambda x: loss(x, labels, tau), s, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_equals_the_formula_written_out(loss: Loss) -> None:
    s = torch.randn(8, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    labels = torch.tensor([0, 1, 0, 2, 0, 1, 0, 2])
    e = torch.exp((s - s.amax(1, keepdim=True)) / 0.3)
    if loss is ntx_n:
        e = e * (1 - torch.eye(8, dtype=torch.float64))
    lmat = -torch.log(e / (e.sum(1, keepdim=True) + 1e-8) + 1e-8)
    same = (labels[:, None] == labels).double()
    value = (same / (same.sum(1, keepdim=True) + 1e-8) * lmat).sum() / 8
    if loss is ntx_n:
        value = 2 * value + sum(lmat[i, i + 4] + lmat[i + 4, i] for i in range(4)) / 8
    assert loss(s, labels, 0.3).item() == pytest.approx(value.item(), rel=1e-12)


def test_hand_worked_two_rows() -> None:
    s, labels = torch.tensor([[1.0, 0.5], [0.5, 1.0]]), torch.tensor([0, 0])
    assert ntx_n(s, labels, 1.0).item() == pytest.approx(18.420681, rel=1e-6)
    assert ntx_uni(s, labels, 1.0).item() == pytest.approx((0.474077 + 0.974077) / 2, rel=1e-6)


@pytest.mark.parametrize("tau", [0.07, 1.0, 5.0])
def test_identical_rows_of_one_label(tau: float) -> None:
    s, labels = torch.full((4, 4), 0.3, dtype=torch.float64), torch.zeros(4, dtype=torch.long)
    assert ntx_uni(s, labels, tau).item() == pytest.approx(math.log(4), rel=1e-6)
    assert ntx_n(s, labels, tau).item() == pytest.approx(11.956871, rel=1e-6)


def test_pre_of_a_constant_matrix_is_log_n() -> None:
    labels = torch.tensor([3, 1, 3, 2, 0, 0])
    assert ntx_pre(torch.full((6, 6), 0.7), labels, 0.07).item() == pytest.approx(math.log(6), rel=1e-6)


def test_pre_divides_an_odd_number_of_rows_by_the_even_one_below() -> None:
    s, labels = torch.randn(5, 5, generator=torch.Generator().manual_seed(2)).double(), torch.tensor([0, 1, 0, 1, 2])
    assert ntx_pre(s, labels, 0.5).item() == pytest.approx(ntx_uni(s, labels, 0.5).item() * 5 / 4)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_a_constant_added_to_a_row_changes_nothing(loss: Loss) -> None:
    s, labels = torch.randn(6, 6, generator=torch.Generator().manual_seed(3)).double(), torch.tensor([0, 1, 0] * 2)
    shifted = s + torch.tensor([5.0, 0, -3, 1, 0, 2])[:, None]
    assert loss(shifted, labels, 0.2).item() == pytest.approx(loss(s, labels, 0.2).item(), rel=1e-12)


def test_self_similarity_has_no_gradient_in_ntx_n() -> None:
    s = torch.randn(6, 6, generator=torch.Generator().manual_seed(4)).double().requires_grad_()
    (grad,) = torch.autograd.grad(ntx_n(s, torch.tensor([0, 1, 1] * 2), 0.2), s)
    assert grad.diagonal().abs().max() == 0
    assert grad.abs().max() > 0


def test_an_entry_is_capped_and_a_distant_positive_gets_no_gradient() -> None:
    s = torch.tensor([[1.0, -1.0], [1.0, 1.0]], dtype=torch.float64, requires_grad=True)
    loss = ntx_pre(s, torch.tensor([0, 0]), 0.02)  # row 0: q = e^-100
    assert loss.item() == pytest.approx((18.420681 / 2 + math.log(2)) / 2, rel=1e-6)
    (grad,) = torch.autograd.grad(loss, s)
    assert grad[0, 1].abs() < 1e-30


def test_similarity_is_bounded_by_twice_the_coefficient_and_equals_two_products() -> None:
    generator = torch.Generator().manual_seed(5)
    p = unit(torch.randn(40, 6, generator=generator, dtype=torch.float64))
    f = unit(torch.randn(40, 9, generator=generator, dtype=torch.float64))
    s = similarity(p, f, 2, 0.5)
    torch.testing.assert_close(s, 0.5 * (p @ f[:, 2:8].T + p @ p.T))
    assert s.abs().max() <= 1
    assert similarity(p, f, 0).abs().max() <= 2


def test_computes_in_float32_under_autocast() -> None:
    p = unit(torch.randn(8, 4, generator=torch.Generator().manual_seed(6)).bfloat16())
    labels = torch.tensor([0, 1, 0, 1] * 2)
    with torch.autocast("cpu", torch.bfloat16):
        s = similarity(p, p, 0)
        assert s.dtype == cosines(p, p).dtype == ntx_n(s, labels, 0.07).dtype == torch.float32
    torch.testing.assert_close(s, 2 * F.linear(p, p))


def test_keeps_one_matrix_for_the_backward_pass() -> None:
    s, labels = torch.randn(64, 64, requires_grad=True), torch.arange(64) % 4
    saved: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.numel()) or t, lambda t: t):
        ntx_uni(s, labels, 0.07)
    assert saved == [64 * 64]
