"""RMI: the recorded cases with variants and gradients; hand-worked numbers; edge cases; invariants."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from emi_bench.losses.prototypes import prototypes
from emi_bench.losses.rmi import rmi
from tests.golden_files import golden

CASES = {case["name"]: case for case in golden("emi_rmi")["cases"]}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def memory(case: dict[str, Any], key: str) -> dict[int, Tensor]:
    """Stored vectors of the classes at hand that have any."""
    wanted = {int(c): torch.tensor(v, dtype=torch.float64).requires_grad_() for c, v in case[key].items()}
    return {c: v for c, v in wanted.items() if c in set(case.get("labels", case.get("classes")))}


def table(stored: dict[int, Tensor], renorm: bool = True) -> Tensor:
    if not stored:
        return torch.zeros(0, 2, dtype=torch.float64)
    owner = torch.cat([torch.full((len(v),), i) for i, v in enumerate(stored.values())])
    rows = torch.cat([F.normalize(v) for v in stored.values()])
    return prototypes(rows, owner, len(stored), renorm=renorm)


def of(case: dict[str, Any], renorm: bool = True, **options: Any) -> tuple[Tensor, Tensor, dict[int, Tensor]]:
    u = torch.tensor(case["u"], dtype=torch.float64, requires_grad=True)
    u_view = torch.tensor(case["u_view"], dtype=torch.float64)
    stored, stored_view = memory(case, "memory"), memory(case, "memory_view")
    classes = torch.tensor(list(stored), dtype=torch.long)
    p, p_view = table(stored, renorm), table(stored_view, renorm)
    labels = torch.tensor(case["labels"])
    loss = rmi(p, p_view, classes, F.normalize(u), F.normalize(u_view), labels, tau=case["tau"], **options)
    return loss, u, stored


@every_case
def test_recorded_value_and_variants(case: dict[str, Any]) -> None:
    assert of(case)[0].item() == pytest.approx(case["loss"], rel=1e-10, abs=1e-12)
    for name, value in case["variants"].items():
        reduction, *no_renorm = name.split("/")
        assert of(case, not no_renorm, reduction=reduction)[0].item() == pytest.approx(value, rel=1e-10, abs=1e-12)


@every_case
def test_recorded_gradients(case: dict[str, Any]) -> None:
    loss, u, stored = of(case)
    recorded = case["numeric_gradient"]
    if not stored:
        assert not loss.requires_grad  # no prototype: nothing reaches the network
        return
    grads = torch.autograd.grad(loss, (u, *stored.values()))
    torch.testing.assert_close(grads[0], torch.tensor(recorded["grad_u"]).double(), rtol=1e-5, atol=1e-7)
    for grad, c in zip(grads[1:], stored, strict=True):
        expected = torch.tensor(recorded["grad_mem"][str(c)]).double()
        torch.testing.assert_close(grad, expected, rtol=1e-5, atol=1e-7)


def test_recorded_prototypes() -> None:
    for case in CASES.values():
        for key, name in (("memory", "prototypes"), ("memory_view", "prototypes_view")):
            stored = memory(case, key)
            for row, c in zip(table(stored), stored, strict=True):
                assert row.tolist() == pytest.approx(case[name][str(c)], rel=1e-10)


def test_hand_worked_numbers() -> None:
    hand = CASES["hand_K2_tau1"]
    assert of(hand)[0].item() == pytest.approx(4.130060, abs=1e-6)
    assert of(hand, reduction="sum_log")[0].item() == pytest.approx(5.850725, abs=1e-6)
    assert of(CASES["class_without_memory"])[0].item() == pytest.approx(5.684938, abs=1e-6)


def random(n: int = 12, k: int = 4, d: int = 128) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    p, p_view = (F.normalize(torch.randn(k, d, generator=generator)) for _ in range(2))
    u, u_view = (F.normalize(torch.randn(n, d, generator=generator)) for _ in range(2))
    return {
        "p": p,
        "p_view": p_view,
        "classes": torch.arange(k),
        "u": u,
        "u_view": u_view,
        "labels": torch.arange(n) % k,
    }


def test_only_prototypes_of_classes_at_hand_count_but_all_samples_are_in_the_denominator() -> None:
    given = random()
    given["labels"] = torch.tensor([0, 1, 0, 9, 9, 1, 0, 9, 9, 1, 1, 1])
    few = given | {"p": given["p"][:2], "p_view": given["p_view"][:2], "classes": given["classes"][:2]}
    assert rmi(**given, tau=0.07).item() == pytest.approx(rmi(**few, tau=0.07).item(), rel=1e-6)
    keep = given["labels"] < 9
    without = few | {name: few[name][keep] for name in ("u", "u_view", "labels")}
    assert rmi(**without, tau=0.07).item() < rmi(**few, tau=0.07).item()


@pytest.mark.parametrize("reduction", ["log_sum", "sum_log"])
@pytest.mark.parametrize("n", [0, 1, 2, 12])
@pytest.mark.parametrize("k", [0, 1, 4])
def test_edge_cases_have_finite_values_and_gradients(n: int, k: int, reduction: Any) -> None:
    given = random(n, max(k, 1))
    inputs = [given[name].requires_grad_() for name in ("p", "p_view", "u", "u_view")]
    given |= {name: given[name][:k] for name in ("p", "p_view", "classes")}
    loss = rmi(**given, tau=0.07, reduction=reduction)
    assert loss.isfinite()
    if min(n, k) == 0:
        assert loss.item() == 0
    else:
        for grad in torch.autograd.grad(loss, inputs):
            assert grad.isfinite().all()


def test_log_b_is_bounded() -> None:
    given = random()
    per_class = torch.tensor([3.0, 3, 3, 3])
    assert rmi(**given, tau=0.07).item() >= (3 * math.log(3) / per_class).mean().item()


def test_invariant_to_the_order_of_samples_and_of_prototypes() -> None:
    given = random()
    loss = rmi(**given, tau=0.07).item()
    order, rows = torch.randperm(12), torch.randperm(4)
    shuffled = {n: given[n][order] for n in ("u", "u_view", "labels")}
    shuffled |= {n: given[n][rows] for n in ("p", "p_view", "classes")}
    assert rmi(**shuffled, tau=0.07).item() == pytest.approx(loss, rel=1e-6)


def test_the_printed_minus_sign_would_repel() -> None:
    hand = CASES["hand_K2_tau1"]
    u, u_view = (F.normalize(torch.tensor(hand[k], dtype=torch.float64)) for k in ("u", "u_view"))
    p, p_view = table(memory(hand, "memory")), table(memory(hand, "memory_view"))
    loss = rmi(-p, -p_view, torch.tensor([0, 1]), u, u_view, torch.tensor(hand["labels"]), tau=1.0)
    assert loss.item() == pytest.approx(5.913, abs=1e-3)
