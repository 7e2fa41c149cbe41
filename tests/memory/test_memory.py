"""The replay memory: recorded reservoir traces, exact inclusion probabilities, the class index, forced retrieval."""

from __future__ import annotations

import io
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from emi_bench.draws import Draws
from emi_bench.memory import Memory, batched_reservoir, textbook_reservoir
from emi_bench.testing import ScriptedDraws
from tests.golden_files import golden


def numbered(ids: list[int], dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """Images that carry their sample's number."""
    return torch.tensor(ids, dtype=dtype).view(-1, 1, 1, 1).expand(-1, 3, 2, 2)


def held(memory: Memory) -> list[int]:
    return memory.images[: memory.filled, 0, 0, 0].tolist()


@pytest.mark.parametrize("trace", golden("reservoir")["traces"], ids=lambda t: f"M={t['M']}")
def test_recorded_reservoir_traces(trace: dict[str, Any]) -> None:
    draws = ScriptedDraws({})
    memory = Memory(trace["M"], (3, 2, 2), dtype=torch.int64)
    for step in trace["steps"]:
        for draw in step["draws"]:
            draws.then({"reservoir": [[int(u) for u in draw["floats"]]]})
        ids = step["batch_ids"]
        memory.update(numbered(ids), torch.zeros(len(ids), dtype=torch.int64), draws)
        slots = [s for s in step["slots"] if s >= 0]
        assert held(memory) == slots
        assert (memory.filled, memory.n_seen) == (step["current_index"], step["n_seen"])
    assert not draws.left()


STREAMS = 20_000  #: simulated, of each case


@pytest.mark.parametrize("case", golden("reservoir")["inclusion"], ids=lambda c: f"M={c['M']},{c['batches']}")
def test_inclusion_probabilities_are_the_exact_ones(case: dict[str, Any]) -> None:
    """Chi-square of simulated streams against the exact rationals."""
    exact = [float(Fraction(p)) for p in case["exact_inclusion_reference"]]
    counts = simulate(batched_reservoir, case["M"], case["batches"], STREAMS)
    # each sample is in or out: one 2-cell test a sample, combined
    chi2 = sum(
        (n - STREAMS * p) ** 2 / (STREAMS * p * (1 - p)) for n, p in zip(counts, exact, strict=True) if 0 < p < 1
    )
    assert stats.chi2.sf(chi2, df=sum(0 < p < 1 for p in exact)) > 1e-4
    for n, p in zip(counts, exact, strict=True):
        if p in (0, 1):
            assert n == STREAMS * p


def test_the_textbook_reservoir_keeps_every_sample_equally_often() -> None:
    counts = simulate(textbook_reservoir, 3, [2, 2, 2, 2], STREAMS)
    expected = STREAMS * 3 / 8
    chi2 = sum((n - expected) ** 2 / (expected * (1 - 3 / 8)) for n in counts)
    assert stats.chi2.sf(chi2, df=8) > 1e-4


def simulate(reservoir: Any, size: int, batches: list[int], runs: int) -> list[int]:
    counts = [0] * sum(batches)
    draws = Draws(1)
    for _ in range(runs):
        content = [-1] * size
        seen = 0
        for b in batches:
            filled = sum(c >= 0 for c in content)
            for i, slot in enumerate(reservoir(b, filled, seen, size, draws)):
                if slot >= 0:
                    content[slot] = seen + i
            seen += b
        for c in content:
            if c >= 0:
                counts[c] += 1
    return counts


stream = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=5), max_size=12)


@given(st.integers(1, 8), stream, st.integers(0, 1000), st.sampled_from(["batched", "textbook"]))
@settings(max_examples=60, deadline=None)
def test_the_class_index_always_mirrors_the_slots(size: int, batches: list[list[int]], seed: int, kind: str) -> None:
    memory, draws = Memory(size, (1,), reservoir=kind), Draws(seed)
    offered = 0
    for labels in batches:
        memory.update(torch.zeros(len(labels), 1, dtype=torch.uint8), torch.tensor(labels), draws)
        offered += len(labels)
        true = memory.labels[: memory.filled].tolist()
        assert memory.filled == min(size, offered)
        assert memory.n_seen == offered
        assert memory.label_list(range(memory.filled)) == true
        assert memory.counts() == {c: true.count(c) for c in memory.classes()}
        for c in range(5):
            assert sorted(memory.slots_of(c)) == [s for s, label in enumerate(true) if label == c]


def test_floats_survive_unrounded_and_uint8_stays_uint8() -> None:
    x = torch.rand(3, 3, 2, 2)
    memory = Memory(4, (3, 2, 2))
    memory.update(x, torch.tensor([0, 1, 2]), Draws(0))
    assert memory.images.dtype == torch.float32
    assert torch.equal(memory.images[:3], x)
    memory = Memory(4, (3, 2, 2))
    memory.update((x * 255).to(torch.uint8), torch.tensor([0, 1, 2]), Draws(0))
    assert memory.images.dtype == torch.uint8


def test_retrieval_is_without_replacement_and_starts_empty() -> None:
    memory, draws = Memory(50, (3, 2, 2)), Draws(0)
    x, y = memory.sample(4, draws)
    assert x.shape == (0, 3, 2, 2)
    assert y.shape == (0,)
    memory.update(numbered(list(range(40)), torch.uint8), torch.arange(40), draws)
    for _ in range(20):
        x, y = memory.sample(10, draws)
        assert len(set(y.tolist())) == 10
        assert x[:, 0, 0, 0].tolist() == y.tolist()
    assert memory.sample(64, draws)[1].tolist() == list(range(40))  # fewer than asked for: all, in order
    assert not set(memory.pick(10, draws, exclude=range(30)).tolist()) & set(range(30))


def test_retrieval_can_be_forced() -> None:
    memory = Memory(9, (3, 2, 2))
    memory.update(numbered(list(range(9)), torch.uint8), torch.arange(9), Draws(0))
    _, y = memory.sample(3, ScriptedDraws({"replay": [[7, 0, 4]]}))
    assert y.tolist() == [7, 0, 4]


def test_no_memory_stores_nothing_and_still_counts() -> None:
    memory = Memory(0, (3, 2, 2))
    memory.update(numbered([1, 2], torch.uint8), torch.tensor([0, 1]), Draws(0))
    assert (len(memory), memory.n_seen, memory.classes()) == (0, 2, [])


def test_state_round_trips_through_a_safe_checkpoint() -> None:
    memory, draws = Memory(5, (3, 2, 2)), Draws(3)
    for i in range(4):
        memory.update(torch.rand(3, 3, 2, 2), torch.tensor([i, 1, 2]), draws)
    buffer = io.BytesIO()
    torch.save(memory.state_dict(), buffer)
    buffer.seek(0)
    other = Memory(5, (3, 2, 2))
    other.load_state_dict(torch.load(buffer, weights_only=True))
    assert torch.equal(memory.images, other.images)
    assert (memory.counts(), memory.filled, memory.n_seen) == (other.counts(), other.filled, other.n_seen)
    a, b = Draws(9), Draws(9)
    memory.update(torch.rand(3, 3, 2, 2), torch.tensor([5, 5, 5]), a)
    other.update(torch.rand(3, 3, 2, 2), torch.tensor([5, 5, 5]), b)
    assert memory.classes() == other.classes()
    assert memory.slots_of(5) == other.slots_of(5)
