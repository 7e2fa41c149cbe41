"""KNN Shapley values: worked numbers, the definition by brute force, and what holds for any input."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from emi_bench.losses.shapley import knn_shapley
from tests.golden_files import golden


def by_rank(indicator: list[int], k: int) -> list[float]:
    """Values of candidates at 1, 2, ... for a point at 0, where indicator says who shares its label."""
    n = len(indicator)
    candidates = torch.arange(1.0, n + 1, dtype=torch.float64)[:, None]
    point = torch.zeros(1, 1, dtype=torch.float64)
    return knn_shapley(candidates, torch.tensor(indicator), point, torch.ones(1, dtype=torch.int64), k=k)[0].tolist()


def utility(indicator: list[int], k: int) -> Fraction:
    return Fraction(sum(indicator[:k]), k)


def by_definition(indicator: list[int], k: int) -> list[Fraction]:
    """Average marginal utility over all coalitions."""
    n = len(indicator)
    values = []
    for i in range(n):
        others = [j for j in range(n) if j != i]
        total = Fraction(0)
        for size in range(n):
            for coalition in combinations(others, size):
                ranked = sorted([*coalition, i])
                gain = utility([indicator[j] for j in ranked], k) - utility([indicator[j] for j in coalition], k)
                total += gain / comb(n - 1, size)
        values.append(total / n)
    return values


@pytest.mark.parametrize(
    ("indicator", "k", "expected"),
    [
        ([1, 0, 1, 1, 0], 3, [1 / 4, -1 / 12, 1 / 4, 1 / 4, 0]),
        ([0, 1, 1, 0], 1, [-2 / 3, 1 / 3, 1 / 3, 0]),
        ([1, 1], 3, [1 / 2, 1 / 2]),  # fewer candidates than neighbours: the source's form, the exact value is 1/3
        ([1], 3, [1]),
        ([0], 1, [0]),
    ],
)
def test_worked_numbers(indicator: list[int], k: int, expected: list[float]) -> None:
    assert by_rank(indicator, k) == pytest.approx(expected, abs=1e-12)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 1), min_size=1, max_size=7), st.integers(1, 7))
def test_recursion_is_the_definition(indicator: list[int], k: int) -> None:
    k = min(k, len(indicator))  # exact from N >= k on
    assert by_rank(indicator, k) == pytest.approx([float(v) for v in by_definition(indicator, k)], abs=1e-12)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    rng = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    n, e, k = draw(st.integers(1, 12)), draw(st.integers(1, 5)), draw(st.integers(1, 5))
    candidates, points = (torch.randn(m, 3, generator=rng, dtype=torch.float64) for m in (n, e))
    return candidates, torch.randint(3, (n,), generator=rng), points, torch.randint(3, (e,), generator=rng), k


@settings(deadline=None)
@given(worlds(), st.integers(0, 2**31))
def test_permuted_candidates_get_permuted_values(world: tuple[Any, ...], seed: int) -> None:
    candidates, labels, points, point_labels, k = world
    p = torch.randperm(len(candidates), generator=torch.Generator().manual_seed(seed))
    values = knn_shapley(candidates, labels, points, point_labels, k=k)
    assert torch.allclose(knn_shapley(candidates[p], labels[p], points, point_labels, k=k), values[:, p])


@settings(deadline=None)
@given(worlds())
def test_values_of_a_point_add_up_to_its_utility(world: tuple[Any, ...]) -> None:
    candidates, labels, points, point_labels, k = world
    k = min(k, len(candidates))
    total = knn_shapley(candidates, labels, points, point_labels, k=k).sum(1)
    for point, label, value in zip(points, point_labels, total, strict=True):
        nearest = (candidates - point).square().sum(1).argsort()[:k]
        assert value.item() == pytest.approx((labels[nearest] == label).sum().item() / k, abs=1e-12)


def test_equally_near_candidates_keep_their_order() -> None:
    twins = torch.zeros(4, 2)
    values = knn_shapley(twins, torch.tensor([0, 1, 1, 0]), torch.ones(1, 2), torch.tensor([1]), k=1)
    assert values[0].tolist() == pytest.approx([-2 / 3, 1 / 3, 1 / 3, 0], abs=1e-6)


def test_hand_example() -> None:
    case = golden("aser_hand")["retrieval"]
    candidates, labels = torch.tensor(case["cand"])[:, None], torch.tensor(case["cand_y"])
    for name in ("coop", "adv"):
        points = torch.tensor(case[f"{name}_eval"])
        sv = knn_shapley(candidates, labels, points[:, :1], points[:, 1].long(), k=case["k"])
        torch.testing.assert_close(sv, torch.tensor(case[f"sv_{name}"]))


class Allocated(TorchDispatchMode):
    """Bytes of everything that operations return: an upper bound on the memory they need at once."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for t in out if isinstance(out, tuple | list) else [out]:
            self.bytes += t.numel() * t.element_size() if isinstance(t, Tensor) else 0
        return out


def test_tiny_imagenet_shapes_stay_under_200_mb() -> None:
    candidates, points = torch.rand(610, 640), torch.rand(610, 640)
    labels = torch.arange(610) % 200
    with Allocated() as used:
        knn_shapley(candidates, labels, points, labels, k=3)
    assert 610 * 610 * 4 < used.bytes < 200e6  # pairs of features alone would be 950 MB
