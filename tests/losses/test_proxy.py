"""PCR's loss against recorded values and gradients, the N x N matrix of the paper, the hand-worked numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from emi_bench.losses.proxy import proxy_contrastive
from emi_bench.nets.heads import cosine_scores
from tests.golden_files import golden

CASES = golden("pcr_loss_step")["loss_cases"]


def loss_of(features: Tensor, proxies: Tensor, labels: list[int], tau: float = 1.0) -> Tensor:
    return proxy_contrastive(cosine_scores(features, proxies, tau), torch.tensor(labels))


@pytest.mark.parametrize("case", CASES, ids=[c["name"] for c in CASES])
def test_recorded_values_and_gradients(case: dict[str, Any]) -> None:
    features, proxies = (
        torch.tensor(case[k], dtype=torch.float64, requires_grad=True) for k in ("features", "proxies")
    )
    loss = loss_of(features, proxies, case["labels"], case["tau"])
    loss.backward()
    assert loss.item() == pytest.approx(case["loss"], abs=1e-9)
    for mine, name in [(features, "grad_features"), (proxies, "grad_proxies")]:
        torch.testing.assert_close(mine.grad, torch.tensor(case[name], dtype=torch.float64), atol=1e-9, rtol=0)


def random_case(n: int = 12, c: int = 6, d: int = 5) -> tuple[Tensor, Tensor, list[int]]:
    g = torch.Generator().manual_seed(4)
    labels = torch.randint(0, c - 1, (n,), generator=g)  # class c-1 never occurs
    features, proxies = torch.randn(n + c, d, dtype=torch.float64, generator=g).split([n, c])
    return features, proxies, labels.tolist()


def test_equals_the_softmax_over_the_proxies_of_all_rows() -> None:
    features, proxies, labels = random_case()
    y = torch.tensor(labels)
    log_p = cosine_scores(features, proxies, 0.09)[:, y].log_softmax(1)  # (N,N): column j is the proxy of row j's class
    same = (y[:, None] == y).double()
    expected = -(log_p * same).sum(1).div(same.sum(1)).mean()
    torch.testing.assert_close(loss_of(features, proxies, labels, 0.09), expected)


def test_hand_worked_numbers() -> None:
    e = torch.eye(2, dtype=torch.float64)
    assert loss_of(e, e, [0, 1]).item() == pytest.approx(math.log(math.e + 1) - 1, abs=1e-5)
    assert loss_of(e[[0, 0, 0, 1]], e, [0, 0, 0, 1]).item() == pytest.approx(1.096630, abs=1e-5)
    for k in (2, 4):  # perfectly aligned balanced classes of n rows: ln n, not 0
        rows = torch.arange(k).repeat(3)
        eye = torch.eye(k, dtype=torch.float64)
        assert loss_of(eye[rows], eye, rows.tolist(), 0.02).item() == pytest.approx(math.log(3), abs=1e-6)


def test_absent_class_changes_nothing_and_its_proxy_gets_exactly_no_gradient() -> None:
    features, proxies, labels = random_case()
    proxies.requires_grad_()
    loss = loss_of(features, proxies, labels, 0.09)
    loss.backward()
    torch.testing.assert_close(loss, loss_of(features, proxies[:-1], labels, 0.09))
    assert torch.equal(proxies.grad[-1], torch.zeros(5, dtype=torch.float64))
    assert (proxies.grad[:-1].abs().sum(1) > 0).all()


def test_one_class_batch_is_log_n_with_no_gradient() -> None:
    features, proxies, _ = random_case()
    features.requires_grad_()
    loss = loss_of(features, proxies, [2] * 12, 0.09)
    loss.backward()
    assert loss.item() == pytest.approx(math.log(12), abs=1e-12)
    assert torch.equal(features.grad, torch.zeros_like(features))


def test_lengths_do_not_matter_and_doubling_the_rows_adds_ln_2() -> None:
    features, proxies, labels = random_case()
    value = loss_of(features, proxies, labels, 0.09)
    torch.testing.assert_close(loss_of(features * 7, proxies * 3, labels, 0.09), value, atol=1e-4, rtol=0)
    doubled = loss_of(features.repeat(2, 1), proxies, labels * 2, 0.09)
    torch.testing.assert_close(doubled - value, torch.tensor(math.log(2), dtype=torch.float64))
