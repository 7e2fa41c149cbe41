"""GDumb's sampler: never more than M, room is made by a largest class, the shares of the specification."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from emi_bench.draws import Draws
from emi_bench.memory import Memory, greedy_balanced
from emi_bench.testing import ScriptedDraws


def feed(memory: Memory, labels: list[int], draws: Draws, batch: int) -> None:
    for start in range(0, len(labels), batch):
        y = torch.tensor(labels[start : start + batch])
        x = torch.arange(start, start + len(y)).view(-1, 1, 1, 1).expand(-1, 3, 1, 1).float()  # a sample is its number
        memory.write_in_turn(greedy_balanced(y.tolist(), memory, draws), x, y)


def literal(labels: list[int], size: int, evicted: list[int]) -> dict[int, list[int]]:
    """The rule of the specification, sample by sample on lists; notes the samples it evicts as `evicted` names them."""
    held: dict[int, list[int]] = {}
    log = iter(evicted)
    for i, y in enumerate(labels):
        share = size // max(1, len(held))
        if y in held and len(held[y]) >= share:
            continue
        if sum(map(len, held.values())) >= size:
            largest = max(held, key=lambda c: len(held[c]))
            assert largest != y
            held[largest].remove(next(log))
            if not held[largest]:
                del held[largest]
        held.setdefault(y, []).append(i)
    return held


class Noting(Draws):
    """Keeps what was chosen, and from what."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.slots: list[int] = []

    def pick(self, what: str, candidates: Any, k: int) -> Tensor:
        assert what == "evict"
        out = super().pick(what, candidates, k)
        self.slots.append(int(out))
        return out


@pytest.mark.parametrize("batch", [1, 3, 10])
@pytest.mark.parametrize(
    ("size", "labels", "expected"),
    [
        (7, [0] * 20 + [1] * 20 + [2] * 20, {0: 2, 1: 3, 2: 2}),
        (44, [0, 1, 2] * 60, {0: 14, 1: 14, 2: 14}),
        (6, [0] * 20, {0: 6}),
        (2, [0, 0, 1, 1, 2, 2, 2], {1: 1, 2: 1}),
    ],
)
def test_shares_of_the_specification(size: int, labels: list[int], expected: dict[int, int], batch: int) -> None:
    memory = Memory(size, (3, 1, 1), dtype=torch.float32)
    feed(memory, labels, Draws(0), batch)
    assert memory.counts() == expected


@settings(deadline=None, max_examples=150)
@given(st.integers(1, 12), st.lists(st.integers(0, 5), max_size=60), st.integers(1, 10), st.integers(0, 2**31))
def test_batched_sampler_is_the_rule_sample_by_sample(size: int, labels: list[int], batch: int, seed: int) -> None:
    memory = Memory(size, (3, 1, 1), dtype=torch.float32)
    draws = Noting(seed)
    at: dict[int, int] = {}  # slot -> sample, to name the evicted
    evicted: list[int] = []
    for start in range(0, len(labels), batch):
        y = torch.tensor(labels[start : start + batch])
        known = len(draws.slots)
        slots = greedy_balanced(y.tolist(), memory, draws)
        gone = iter(draws.slots[known:])
        filled = memory.filled
        for i, slot in enumerate(slots):
            if slot >= 0:
                if slot < filled:
                    assert slot == next(gone)
                    evicted.append(at[slot])
                filled = max(filled, slot + 1)
                at[slot] = start + i
        x = torch.arange(start, start + len(y)).view(-1, 1, 1, 1).expand(-1, 3, 1, 1).float()
        memory.write_in_turn(slots, x, y)
        assert len(memory) <= size
        now = literal(labels[: start + batch], size, evicted)
        assert list(now) == memory.classes()  # in the order in which they came: ties are broken by it
    held = literal(labels, size, evicted)
    assert {c: len(ids) for c, ids in held.items()} == memory.counts()
    for c, ids in held.items():
        assert sorted(ids) == sorted(int(memory.images[s, 0, 0, 0]) for s in memory.slots_of(c))


def test_largest_class_that_came_first_makes_room() -> None:
    memory = Memory(4, (3, 1, 1), dtype=torch.float32)
    feed(memory, [3, 3, 1, 1], Draws(0), 4)
    draws = ScriptedDraws({"evict": [[1]]})
    assert greedy_balanced([8], memory, draws) == [1]


def test_a_class_that_was_overwritten_within_its_batch_has_still_come_first() -> None:
    memory = Memory(4, (3, 1, 1), dtype=torch.float32)
    draws = ScriptedDraws({"evict": [[0], [1]]})
    feed(memory, [2, 2, 2, 2, 2, 1, 2, 1, 2, 2], draws, 10)
    assert memory.counts() == {2: 2, 1: 2}
    assert memory.classes() == [2, 1]


def test_later_sample_of_a_batch_may_evict_an_earlier_one() -> None:
    memory = Memory(2, (3, 1, 1), dtype=torch.float32)
    draws = ScriptedDraws({"evict": [[1]]})
    y = torch.tensor([0, 0, 1])
    slots = greedy_balanced(y.tolist(), memory, draws)
    assert slots == [0, 1, 1]
    memory.write_in_turn(slots, torch.arange(3.0).view(-1, 1, 1, 1).expand(-1, 3, 1, 1), y)
    assert memory.images[:, 0, 0, 0].tolist() == [0, 2]


def test_no_slots_no_samples() -> None:
    assert greedy_balanced([0, 1], Memory(0, (3, 1, 1)), Draws(0)) == [-1, -1]
