"""The memory with summary slots: the recorded trace of the slots, and what must hold for every stream."""

from __future__ import annotations

import io

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from emi_bench.draws import Draws
from emi_bench.memory.summary import SummaryMemory
from emi_bench.testing import ScriptedDraws
from tests.golden_files import golden

SLOTS = golden("ssd_matching")["slots"]


def test_recorded_slots() -> None:
    memory = SummaryMemory(SLOTS["M"], (3, 2, 2), images_per_class=SLOTS["images_per_class"])
    for step in SLOTS["trace"]:
        reservoir = [draw[2] for draw in step["draws"] if draw[0] == "uniform"]
        script = {
            "reservoir": [reservoir] if reservoir else [],
            "summary": [[draw[1]] for draw in step["draws"] if draw[0] == "choice_from_avail"],
        }
        draws = ScriptedDraws(script)
        ids = torch.tensor(step["sample_ids"])
        x = (ids / 100).view(-1, 1, 1, 1).expand(-1, 3, 2, 2)
        memory.update(x, torch.tensor(step["labels"]), draws)
        assert not draws.left()
        assert (memory.images[: memory.filled, 0, 0, 0] * 100).round().int().tolist() == step["slot_sample_id"]
        assert memory.label_list(range(memory.filled)) == step["slot_label"]
        assert {str(c): memory.summary_slots(c) for c in memory.classes() if memory.summary_slots(c)} == step[
            "summary_slots"
        ]
        assert memory.free_slots() == step["free_slots"]
        assert (memory.filled, memory.n_seen) == (step["current_index"], step["n_seen"])


def stream(data: st.DataObject, classes: int) -> list[list[int]]:
    batches: list[list[int]] = data.draw(
        st.lists(st.lists(st.integers(0, classes - 1), min_size=1, max_size=7), max_size=30)
    )
    return batches


@settings(deadline=None)
@given(st.data(), st.integers(1, 4), st.integers(0, 3), st.integers(0, 9), st.sampled_from(["batched", "textbook"]))
def test_slots_of_every_stream(data: st.DataObject, classes: int, ipc: int, room: int, reservoir: str) -> None:
    """Lists are disjoint and no longer than ipc, the rest is free, a summary slot keeps its class for ever."""
    size = max(1, classes * ipc + room)
    memory = SummaryMemory(size, (3, 1, 1), images_per_class=ipc, reservoir=reservoir)
    draws, held, seen = Draws(data.draw(st.integers(0, 99))), {}, 0
    for batch in stream(data, classes):
        before = memory.images.clone()
        x = seen + torch.arange(len(batch)).float().view(-1, 1, 1, 1).expand(-1, 3, 1, 1)
        memory.update(x, torch.tensor(batch), draws)
        seen += len(batch)
        summaries = {c: memory.summary_slots(c) for c in range(classes)}
        taken = [slot for slots in summaries.values() for slot in slots]
        assert len(taken) == len(set(taken)) == memory.n_summary
        assert all(len(slots) <= ipc for slots in summaries.values())
        assert sorted(taken + memory.free_slots()) == list(range(size))
        assert memory.real_slots() == [s for s in memory.free_slots() if s < memory.filled]
        for slot, label in held.items():
            assert memory.label_list([slot]) == [label]
            assert torch.equal(memory.images[slot], before[slot])
        held = {slot: c for c, slots in summaries.items() for slot in slots}
        assert all(memory.label_list([slot]) == [c] for slot, c in held.items())
        assert all(memory.is_complete(c) == (0 < ipc == len(summaries[c])) for c in range(classes))
        assert (memory.n_seen, memory.filled) == (seen, min(seen, size))


def test_a_new_class_takes_its_slots_from_the_reservoir() -> None:
    memory = SummaryMemory(20, (3, 1, 1), images_per_class=4)
    memory.update(torch.zeros(20, 3, 1, 1), torch.arange(20) % 2, Draws(0))
    memory.update(torch.ones(4, 3, 1, 1), torch.full((4,), 7), Draws(1))
    assert memory.counts()[7] == 4
    assert len(memory.summary_slots(0)) == len(memory.summary_slots(1)) == 4


def test_real_images_are_kept_by_the_batched_reservoir() -> None:
    """Free slots hold the image of a later sample with the probability of the common reservoir."""
    later = 0
    for seed in range(300):
        memory = SummaryMemory(10, (3, 1, 1), images_per_class=2)
        draws = Draws(seed)
        for start in range(0, 40, 5):
            x = torch.arange(start, start + 5).float().view(-1, 1, 1, 1).expand(-1, 3, 1, 1)
            memory.update(x, torch.zeros(5, dtype=torch.int64), draws)
        later += int((memory.images[memory.free_slots(), 0, 0, 0] >= 20).sum())
    assert later / (300 * 8) == pytest.approx(0.5, abs=0.05)


def test_rewritten_summaries_are_kept_unrounded_and_unclamped() -> None:
    memory = SummaryMemory(6, (3, 2, 2), images_per_class=2)
    memory.update(torch.full((3, 3, 2, 2), 51, dtype=torch.uint8), torch.tensor([5, 5, 5]), Draws(0))
    assert memory.images.dtype == torch.float32
    assert torch.allclose(memory.images[:3], torch.tensor(0.2))
    summary = torch.randn(2, 3, 2, 2) * 3
    memory.rewrite(5, summary)
    assert torch.equal(memory.at(torch.tensor(memory.summary_slots(5)))[0], summary)
    assert torch.allclose(memory.images[2], torch.tensor(0.2))


def test_state_round_trips() -> None:
    memory, draws = SummaryMemory(8, (3, 2, 2), images_per_class=2), Draws(0)
    for _ in range(5):
        memory.update(torch.rand(4, 3, 2, 2), torch.tensor([3, 1, 3, 1]), draws)
    buffer = io.BytesIO()
    torch.save(memory.state_dict(), buffer)
    buffer.seek(0)
    twin = SummaryMemory(8, (3, 2, 2), images_per_class=2)
    twin.load_state_dict(torch.load(buffer, weights_only=True))
    assert twin.summary_slots(3) == memory.summary_slots(3)
    assert twin.free_slots() == memory.free_slots()
    for m in (memory, twin):
        m.update(torch.ones(4, 3, 2, 2), torch.tensor([2, 2, 2, 1]), Draws(9))
    assert torch.equal(memory.images, twin.images)
    assert twin.summary_slots(2) == memory.summary_slots(2)
