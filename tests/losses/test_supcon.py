"""The supervised contrastive loss against recorded values and gradients, and by its invariants."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from emi_bench.losses.supcon import supcon
from tests.golden_files import golden

CASES = [c for c in golden("supcon_loss") if c["grad"]] + [golden("pcr_loss_step")["supcon_all"]]


def rows(features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """(n,V,d) views as the loss takes them: all first views, then all second views."""
    n, views, d = features.shape
    return features.transpose(0, 1).reshape(views * n, d), labels.repeat(views)


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_recorded_values_and_gradients(case: dict[str, Any]) -> None:
    features = torch.tensor(case["features"], dtype=torch.float64, requires_grad=True)
    temperature = case["temperature"] if "temperature" in case else case["tau"]
    loss = supcon(*rows(features, torch.tensor(case["labels"])), temperature)
    loss.backward()
    assert loss.item() == pytest.approx(case["loss"], rel=2e-6)
    assert torch.allclose(features.grad, torch.tensor(case["grad"], dtype=torch.float64), atol=3e-6, rtol=3e-6)


def test_hand_worked_value() -> None:
    case = golden("supcon_loss")[-1]
    z, y = rows(torch.tensor(case["features"], dtype=torch.float64), torch.tensor(case["labels"]))
    assert supcon(z, y, 1.0).item() == pytest.approx(math.log(2 + math.exp(-1)), abs=1e-12)


def unit_rows(n: int, d: int = 5, seed: int = 0) -> Tensor:
    z = torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return z / z.norm(dim=1, keepdim=True)


def test_one_image_with_two_views_costs_nothing() -> None:
    z = unit_rows(2).requires_grad_()
    loss = supcon(z, torch.tensor([3, 3]), 0.07)
    loss.backward()
    assert loss.item() == 0.0
    assert torch.equal(z.grad, torch.zeros_like(z))


def test_names_and_order_of_classes_do_not_matter() -> None:
    z, y = unit_rows(8), torch.tensor([0, 0, 1, 2, 0, 0, 1, 2])
    order = torch.tensor([5, 2, 7, 0, 1, 3, 6, 4])
    value = supcon(z, y, 0.07)
    torch.testing.assert_close(supcon(z, torch.tensor([9, 4, 6])[y], 0.07), value)
    torch.testing.assert_close(supcon(z[order], y[order], 0.07), value)


def test_single_class_batch_of_equal_rows_is_log_of_the_others() -> None:
    z = unit_rows(1).expand(6, -1)
    assert supcon(z, torch.zeros(6, dtype=torch.int64), 0.07).item() == pytest.approx(math.log(5), abs=1e-12)


def test_small_temperatures_stay_finite_in_float32_and_under_autocast() -> None:
    z = unit_rows(8).float().requires_grad_()
    y = torch.tensor([0, 0, 1, 2, 0, 0, 1, 2])
    with torch.autocast("cpu", torch.bfloat16):
        loss = supcon(z, y, 0.001)
    loss.backward()
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(supcon(z.detach().double(), y, 0.001).item(), rel=1e-4)
    assert z.grad.isfinite().all()
