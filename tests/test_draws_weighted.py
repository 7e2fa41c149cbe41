"""Weighted draws without replacement: the law of torch.multinomial, on the host."""

from __future__ import annotations

from collections import Counter

import pytest

from emi_bench.draws import Draws


def test_weighted_draws_follow_successive_sampling() -> None:
    draws = Draws(0)
    w = [1.0, 2.0, 0.0, 5.0]
    n = 8000
    pairs = Counter(tuple(draws.weighted("slots", w, 2).tolist()) for _ in range(n))
    assert all(2 not in pair for pair in pairs)
    for (a, b), count in pairs.items():
        expected = w[a] / 8 * w[b] / (8 - w[a])
        assert count / n == pytest.approx(expected, abs=0.02)


def test_as_many_as_there_are_come_all() -> None:
    assert sorted(Draws(1).weighted("slots", [0.1, 3.0, 1e-8], 3).tolist()) == [0, 1, 2]
