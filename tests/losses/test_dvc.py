"""DVC's loss terms against recorded values and gradients, the hand-worked numbers, the invariants."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from emi_bench.losses.dvc import dual_view_terms, gradient_length
from tests.golden_files import golden

CASES = golden("dvc_losses_mgi")["cases"]


@pytest.mark.parametrize("case", CASES, ids=[c["name"] for c in CASES])
def test_recorded_values_and_gradients(case: dict[str, Any]) -> None:
    dtype = torch.float32 if case["name"] == "clamp_f32" else torch.float64
    z, zt, q = (torch.tensor(case[k], dtype=dtype, requires_grad=True) for k in ("z", "zt", "zzt"))
    ce, ent, dl = dual_view_terms(torch.cat([z, zt]), q, torch.tensor(case["y"]), case["dl_weight"])
    (ce + ent + dl).backward()
    for mine, name in [(ce, "ce"), (ent, "negentropy"), (dl, "dl_weighted"), (ce + ent + dl, "total")]:
        assert mine.item() == pytest.approx(case[name], abs=1e-6 if dtype == torch.float32 else 1e-10), name
    for mine, name in [(z, "grad_z"), (zt, "grad_zt"), (q, "grad_zzt")]:
        torch.testing.assert_close(mine.grad, torch.tensor(case[name], dtype=dtype), atol=1e-7, rtol=0)


LOG3 = math.log(3)


@pytest.mark.parametrize(
    ("z", "zt", "q", "y", "expected"),
    [
        ([[0, 0], [0, 0]], [[0, 0], [0, 0]], [[0, 0], [0, 0]], [0, 1], (0.693147, -0.693147, 0.0)),
        ([[LOG3, 0]], [[0, 0]], [[0, LOG3]], [0], (0.490415, -0.605939, 0.75)),
        ([[LOG3, 0], [0, LOG3]], [[LOG3, 0], [0, LOG3]], [[LOG3, 0], [0, LOG3]], [0, 1], (0.287682, -0.693147, 0.0)),
    ],
    ids=["all_zero", "one_row", "opposite_rows"],
)
def test_hand_worked_numbers(z: list, zt: list, q: list, y: list, expected: tuple[float, ...]) -> None:
    logits = torch.tensor(z + zt, dtype=torch.float64)
    terms = dual_view_terms(logits, torch.tensor(q, dtype=torch.float64), torch.tensor(y), 2.0)
    assert [t.item() for t in terms] == pytest.approx(expected, abs=1e-6)


def random_case(n: int = 6, c: int = 4) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(3)
    z, zt, q = torch.randn(3, n, c, dtype=torch.float64, generator=g) * 3
    return z, zt, q, torch.randint(0, c, (n,), generator=g)


def total(z: Tensor, zt: Tensor, q: Tensor, y: Tensor) -> Tensor:
    return torch.stack(list(dual_view_terms(torch.cat([z, zt]), q, y, 2.0))).sum()


def test_swapping_the_views_or_permuting_the_batch_changes_nothing() -> None:
    z, zt, q, y = random_case()
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    torch.testing.assert_close(total(zt, z, q, y), total(z, zt, q, y))
    torch.testing.assert_close(total(z[order], zt[order], q[order], y[order]), total(z, zt, q, y))


def test_terms_stay_inside_their_bounds() -> None:
    z, zt, q, y = random_case()
    for scale in (0.0, 1.0, 100.0):
        _, ent, dl = dual_view_terms(torch.cat([z, zt]) * scale, q * -scale, y, 3.0)
        assert -math.log(4) - 1e-12 <= ent.item() <= 1e-12
        assert dl.item() <= 2 * 3.0 / 4 + 1e-12


def test_gradient_length_is_the_l1_norm_of_the_last_layers_gradient() -> None:
    g = torch.Generator().manual_seed(1)
    features = torch.randn(5, 7, dtype=torch.float64, generator=g)
    weight = torch.randn(4, 7, dtype=torch.float64, generator=g, requires_grad=True)
    y = torch.tensor([0, 3, 2, 1, 1])
    logits = features @ weight.T
    expected = []
    for i in range(5):
        loss = torch.nn.functional.cross_entropy(logits[i : i + 1], y[i : i + 1])
        (gradient,) = torch.autograd.grad(loss, weight, retain_graph=True)
        expected.append(gradient.abs().sum())
    torch.testing.assert_close(gradient_length(logits, y, features.abs().sum(1)), torch.stack(expected))


def test_gradient_length_of_the_worked_example() -> None:
    y, length = torch.tensor([0]), torch.tensor([3.0])
    before = gradient_length(torch.tensor([[LOG3, 0.0]]), y, length)
    after = gradient_length(torch.zeros(1, 2), y, length)
    assert (before.item(), after.item()) == pytest.approx((1.5, 3.0))
    assert gradient_length(torch.zeros(1, 10), y, torch.ones(1)).item() == pytest.approx(1.8)
