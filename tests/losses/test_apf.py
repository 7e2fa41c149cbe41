"""Adaptive prototypical feedback: how many images each pair of classes gets, and how they are mixed."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from emi_bench.draws import Draws
from emi_bench.losses.apf import (
    mix,
    mixed_labels,
    mixup_cross_entropy,
    pair_counts,
    pair_distances,
    pair_probabilities,
)
from emi_bench.testing import ScriptedDraws


def test_hand_worked_prototypes() -> None:
    means = torch.tensor([[1, 0, 0], [0, 1, 0], [0.8, 0.6, 0]], dtype=torch.float64)
    distances = pair_distances(means)
    probabilities = pair_probabilities(distances)
    assert distances.tolist() == pytest.approx([1.414214, 0.632456, 0.894427], abs=1e-6)
    assert probabilities.tolist() == pytest.approx([0.203883, 0.488617, 0.307500], abs=1e-6)
    assert pair_counts(probabilities, 16, ScriptedDraws({})) == [3, 8, 5]  # no adjustment is asked for


def test_distances_are_in_the_order_of_combinations() -> None:
    means = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = [(means[i] - means[j]).norm().item() for i, j in combinations(range(5), 2)]
    assert pair_distances(means).tolist() == pytest.approx(expected)


def test_distances_carry_no_gradient_and_survive_half_precision() -> None:
    means = torch.eye(3, dtype=torch.bfloat16, requires_grad=True)
    distances = pair_distances(means)
    assert (distances.dtype, distances.requires_grad) == (torch.float32, False)


def test_prototypes_that_coincide_share_everything() -> None:
    assert pair_probabilities(torch.tensor([0.0, 1.0, 0.0])).tolist() == [0.5, 0, 0.5]


def test_too_many_are_taken_from_pairs_that_have_some() -> None:
    draws = Draws(0)
    for _ in range(20):
        assert sorted(pair_counts(torch.tensor([0.3, 0.3, 0.3, 0.1]), 2, draws)) == [0, 0, 1, 1]
        assert pair_counts(torch.tensor([0.3, 0.3, 0.3, 0.1]), 2, draws)[3] == 0
    assert pair_counts(torch.tensor([0.3, 0.3, 0.3, 0.1]), 2, ScriptedDraws({"apf_adjust": [[1]]})) == [1, 0, 1, 0]


def test_too_few_are_given_to_any_pair() -> None:
    sixth = torch.full((6,), 1 / 6)
    assert pair_counts(sixth, 2, ScriptedDraws({"apf_adjust": [[4], [4]]})) == [0, 0, 0, 0, 2, 0]
    draws = Draws(0)
    hit = {pair for _ in range(100) for pair, k in enumerate(pair_counts(sixth, 2, draws)) if k}
    assert hit == set(range(6))


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 12), st.integers(0, 20), st.integers(0, 2**31), st.sampled_from([1e-9, 0.1, 1.0]))
def test_counts_sum_to_what_is_asked(k: int, n: int, seed: int, scale: float) -> None:
    means = scale * torch.randn(k, 4, generator=torch.Generator().manual_seed(seed))
    counts = pair_counts(pair_probabilities(pair_distances(means)), n, Draws(seed))
    assert len(counts) == k * (k - 1) // 2
    assert sum(counts) == n
    assert min(counts) >= 0


def test_distances_of_a_diverged_network_still_end() -> None:
    assert sum(pair_counts(pair_probabilities(torch.full((3,), torch.nan)), 4, Draws(0))) == 4


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_mixing_is_per_image_and_keeps_layout_and_dtype(layout: torch.memory_format) -> None:
    first, second = (torch.rand(4, 3, 6, 6).contiguous(memory_format=layout) for _ in range(2))
    lam = torch.tensor([0.0, 0.3, 0.8, 1.0], dtype=torch.float64)
    out = mix(first, second, lam)
    share = lam.float().view(-1, 1, 1, 1)
    torch.testing.assert_close(out, (1 - share) * first + share * second)
    assert torch.equal(out[0], first[0])
    assert torch.equal(out[3], second[3])
    assert out.is_contiguous(memory_format=layout)


@settings(deadline=None)
@given(st.integers(0, 199), st.integers(0, 199), st.floats(0, 1))
def test_labels_stay_between_their_classes_and_whole_within_one(a: int, b: int, lam: float) -> None:
    (label,) = mixed_labels(torch.tensor([a]), torch.tensor([b]), torch.tensor([lam], dtype=torch.float64)).tolist()
    assert min(a, b) - 1e-9 <= label <= max(a, b) + 1e-9
    assert a != b or label == a


def logits_and_classes() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randint(0, 4, (2, 6), generator=generator)
    return torch.randn(6, 4, dtype=torch.float64, generator=generator), a, b


def test_mixup_cross_entropy_without_a_share_is_cross_entropy() -> None:
    logits, a, b = logits_and_classes()
    torch.testing.assert_close(mixup_cross_entropy(logits, a, b, torch.zeros(6)), F.cross_entropy(logits, a))
    torch.testing.assert_close(mixup_cross_entropy(logits, a, b, torch.ones(6)), F.cross_entropy(logits, b))


def test_mixup_cross_entropy_weighs_both_classes_per_image() -> None:
    logits, a, b = logits_and_classes()
    lam = torch.linspace(0, 1, 6, dtype=torch.float64)
    each = [F.cross_entropy(logits, y, reduction="none") for y in (a, b)]
    expected = ((1 - lam) * each[0] + lam * each[1]).mean()
    torch.testing.assert_close(mixup_cross_entropy(logits, a, b, lam), expected)
