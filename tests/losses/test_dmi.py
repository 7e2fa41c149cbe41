"""DMI: the recorded cases with all variants, sets and gradients; hand-worked numbers; edge cases; invariants."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from emi_bench.losses.dmi import Diversity, dmi, other_share
from tests.golden_files import golden

CASES = {case["name"]: case for case in golden("emi_dmi")["cases"]}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def tensors(case: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
    z = torch.tensor(case["z"], dtype=torch.float64)
    z_view = torch.tensor(case["z_view"], dtype=torch.float64)
    return z.requires_grad_(), z_view.requires_grad_(), torch.tensor(case["labels"])


def of(case: dict[str, Any], **options: Any) -> Diversity:
    z, z_view, labels = tensors(case)
    return dmi(F.normalize(z), F.normalize(z_view), labels, alpha=case["alpha"], tau=case["tau"], **options)


def sets(found: Diversity) -> list[list[int]]:
    return [row.nonzero()[:, 0].tolist() for row in found.members]


@every_case
def test_recorded_value_sets_and_threshold(case: dict[str, Any]) -> None:
    found = of(case)
    assert found.loss.item() == pytest.approx(case["loss"], rel=1e-10, abs=1e-12)
    assert sets(found) == case["detail"]["S"]
    log_mu = case["detail"]["log_mu"]
    expected = math.inf if log_mu is None or log_mu == "inf" else log_mu
    assert found.log_mu.item() == pytest.approx(expected, rel=1e-10)


@every_case
def test_recorded_variants(case: dict[str, Any]) -> None:
    for name, value in case["variants"].items():
        reduction, denominator, empty, *threshold = name.split("/")
        scale = "cos" if threshold else "exp"
        options = {"reduction": reduction, "denominator": denominator, "empty_anchor": empty, "threshold": scale}
        assert of(case, **options).loss.item() == pytest.approx(value, rel=1e-10, abs=1e-12), name
    assert sets(of(case, threshold="cos")) == case["S_cos_threshold"]


@every_case
def test_recorded_gradients(case: dict[str, Any]) -> None:
    z, z_view, labels = tensors(case)
    loss = dmi(F.normalize(z), F.normalize(z_view), labels, alpha=case["alpha"], tau=case["tau"]).loss
    recorded = case["numeric_gradient_wrt_unnormalised_inputs"] or {"grad_z": [[0, 0]], "grad_zp": [[0, 0]]}
    for grad, name in zip(torch.autograd.grad(loss, (z, z_view)), ("grad_z", "grad_zp"), strict=True):
        expected = torch.tensor(recorded[name], dtype=torch.float64)
        torch.testing.assert_close(grad, expected, rtol=1e-5, atol=1e-7)  # central differences


PAIRS = ("off_diagonal", "with_self", "per_class")


@pytest.mark.parametrize("case", golden("emi_dmi_pairs")["cases"])
@pytest.mark.parametrize("pairs", PAIRS)
def test_recorded_choices_of_the_pairs(case: dict[str, Any], pairs: Any) -> None:
    z, z_view, labels = tensors(case)
    found = dmi(z, z_view, labels, alpha=case["alpha"], tau=case["tau"], pairs=pairs)
    recorded = case[pairs]
    assert found.loss.item() == pytest.approx(recorded["loss"], rel=1e-10)
    assert sets(found) == recorded["S"]
    mu = [math.inf if v is None else v for v in recorded["mu"]]
    assert found.log_mu.exp().expand(len(z), 1).flatten().tolist() == pytest.approx(mu, rel=1e-10)
    for grad in torch.autograd.grad(found.loss, (z, z_view)):
        assert grad.isfinite().all()


@pytest.mark.parametrize("threshold", ["exp", "cos"])
def test_with_self_and_alpha_zero_dmi_is_only_intra_class(threshold: Any) -> None:
    z, z_view, labels = clustered()
    assert dmi(z, z_view, labels, alpha=0, tau=0.07, threshold=threshold).n_other > 0
    assert dmi(z, z_view, labels, alpha=0, tau=0.07, threshold=threshold, pairs="with_self").n_other == 0


@pytest.mark.parametrize("threshold", ["exp", "cos"])
def test_an_anchor_of_one_class_has_the_threshold_of_that_class(threshold: Any) -> None:
    z, z_view, labels = clustered()
    labels[-1] = 9  # the only one of its class
    found = dmi(z, z_view, labels, alpha=0.6, tau=0.07, threshold=threshold, pairs="per_class")
    for c in labels.unique():
        mine = labels == c
        alone = dmi(z[mine], z_view[mine], labels[mine], alpha=0.6, tau=0.07, threshold=threshold)
        assert found.log_mu[mine].flatten().tolist() == pytest.approx([alone.log_mu.item()] * int(mine.sum()))


def hand(labels: list[int], z3: tuple[float, float] = (0, 1), **options: Any) -> Diversity:
    z = torch.tensor([(1, 0), (0.6, 0.8), z3], dtype=torch.float64)
    z_view = torch.tensor([(0.8, 0.6), (0.6, 0.8), (-0.6, 0.8)], dtype=torch.float64)
    return dmi(z, z_view, torch.tensor(labels), alpha=0.1, tau=1.0, **options)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (hand([0, 0, 1]), 5.315193),
        (hand([0, 0, 1], reduction="sum_log"), 6.598148),
        (hand([0, 0, 1], denominator="no_pair"), 3.921002),
        (hand([0, 0, 1], (-0.6, 0.8)), 4.213590),
        (hand([0, 0, 1], (-0.6, 0.8), empty_anchor="drop"), 6.320385),
        (hand([0, 1, 2]), 0),
        (hand([0, 0, 0]), 3.140062),
    ],
)
def test_hand_worked_numbers(found: Diversity, expected: float) -> None:
    assert found.loss.item() == pytest.approx(expected, abs=1e-6)


def test_hand_worked_set_counts_its_other_class_members() -> None:
    found = hand([0, 0, 1])
    assert math.exp(found.log_mu.item()) == pytest.approx(1.822119, rel=1e-6)
    assert sets(found) == [[1], [0, 2], [1]]
    assert found.n_other.item() == 2
    assert other_share([found, hand([0, 0, 0])]).item() == pytest.approx(2 / (4 + 6))
    assert other_share([hand([0, 1, 2])]).item() == 0


OPTIONS = [
    {"reduction": r, "denominator": d, "threshold": t, "empty_anchor": e, "pairs": p}
    for r in ("log_sum", "sum_log")
    for d in ("all", "no_pair")
    for t in ("exp", "cos")
    for e in ("zero", "drop")
    for p in PAIRS
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o.values()))
@pytest.mark.parametrize("labels", [[0], [0, 1], [0, 0], [0, 1, 2, 3], [0, 0, 0], [0, 0, 1, 2, 3]])
def test_edge_cases_have_finite_values_and_gradients(options: dict[str, Any], labels: list[int]) -> None:
    z, z_view = torch.randn(2, len(labels), 128, generator=torch.Generator().manual_seed(0)).unbind(0)
    z, z_view = F.normalize(z).requires_grad_(), F.normalize(z_view).requires_grad_()
    loss = dmi(z, z_view, torch.tensor(labels), alpha=0.1, tau=0.07, **options).loss
    assert loss.isfinite()
    for grad in torch.autograd.grad(loss, (z, z_view)):
        assert grad.isfinite().all()
        if len(set(labels)) == len(labels):
            assert grad.abs().max() == 0  # no intra-class pair: nothing to learn


def test_one_sample_and_no_intra_class_pair_are_zero() -> None:
    one = torch.tensor([[1.0, 0.0]])
    found = dmi(one, one, torch.tensor([4]), alpha=0.1, tau=0.07)
    assert (found.loss.item(), found.log_mu.item()) == (0, math.inf)


def clustered(n: int = 24, d: int = 16, seed: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 4
    centre = torch.randn(1, d, generator=generator, dtype=torch.float64)
    z = centre + 0.4 * torch.randn(n, d, generator=generator, dtype=torch.float64)
    return F.normalize(z), F.normalize(z + 0.1 * torch.randn(n, d, generator=generator)), labels


def test_invariant_to_order_and_to_the_length_of_features() -> None:
    z, z_view, labels = clustered()
    loss = dmi(z, z_view, labels, alpha=0.5, tau=0.07).loss.item()
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(0))
    assert dmi(z[order], z_view[order], labels[order], alpha=0.5, tau=0.07).loss.item() == pytest.approx(
        loss, rel=1e-12
    )
    longer = torch.linspace(0.5, 3, len(z), dtype=torch.float64)[:, None]
    scaled = dmi(F.normalize(longer * z), F.normalize(longer * z_view), labels, alpha=0.5, tau=0.07)
    assert scaled.loss.item() == pytest.approx(loss, rel=1e-12)


def test_log_sum_is_bounded_by_the_sizes_of_the_sets() -> None:
    for denominator in ("all", "no_pair"):
        found = dmi(*clustered(), alpha=0.6, tau=0.07, denominator=denominator)
        size = found.members.sum(1)
        bound = 3 * math.log(3) * (1 / size[size > 0]).sum().item() / len(size)
        assert found.loss.item() >= bound - 1e-12
    same = torch.tensor([[1.0, 0.0]] * 2, dtype=torch.float64)
    attained = dmi(same, same, torch.tensor([0, 0]), alpha=0.1, tau=0.07, denominator="no_pair").loss.item()
    assert attained == pytest.approx(3 * math.log(3), rel=1e-9)


@pytest.mark.parametrize("threshold", ["exp", "cos"])
def test_the_sets_grow_with_alpha(threshold: Any) -> None:
    members = [dmi(*clustered(), alpha=a, tau=0.07, threshold=threshold).members for a in (0, 0.1, 0.3, 0.6, 0.9, 1)]
    for smaller, larger in pairwise(members):
        assert (smaller <= larger).all()
    assert members[0].sum() < members[-1].sum()


def test_alpha_zero_lets_in_only_what_beats_every_intra_class_pair() -> None:
    z, z_view, labels = clustered()
    found = dmi(z, z_view, labels, alpha=0, tau=0.07)
    cos = z @ z.T
    same = labels[:, None] == labels
    top = cos[same & ~torch.eye(len(z), dtype=torch.bool)].max()
    assert torch.equal(found.members & ~same, (cos > top) & ~same)


def test_the_cosine_threshold_is_laxer_than_the_exponential_one() -> None:
    z, z_view, labels = clustered()
    for alpha in (0.6, 0.9):
        cos = dmi(z, z_view, labels, alpha=alpha, tau=0.07, threshold="cos")
        exp = dmi(z, z_view, labels, alpha=alpha, tau=0.07, threshold="exp")
        assert (exp.members <= cos.members).all()
        assert exp.n_other < cos.n_other
        a = (z @ z.T)[(labels[:, None] == labels) & ~torch.eye(len(z), dtype=torch.bool)]
        mu = a.max() - alpha * (a.max() - a.mean())
        assert 0.07 * cos.log_mu.item() == pytest.approx(mu.item(), rel=1e-12)
        s = (a / 0.07).exp()
        assert exp.log_mu.exp().item() == pytest.approx((s.max() - alpha * (s.max() - s.mean())).item(), rel=1e-9)


def test_no_gradient_goes_through_the_threshold() -> None:
    z, z_view, labels = clustered()
    z.requires_grad_()
    found = dmi(z, z_view, labels, alpha=0.6, tau=0.07)
    assert not found.log_mu.requires_grad
    assert found.loss.requires_grad


def test_full_precision_under_autocast() -> None:
    z, z_view, labels = clustered()
    with torch.autocast("cpu", torch.bfloat16):
        half = dmi(z.bfloat16(), z_view.bfloat16(), labels, alpha=0.1, tau=0.07).loss
        full = dmi(z.float(), z_view.float(), labels, alpha=0.1, tau=0.07).loss
    assert half.dtype == full.dtype == torch.float32
    assert full.item() == pytest.approx(dmi(z, z_view, labels, alpha=0.1, tau=0.07).loss.item(), rel=1e-5)
