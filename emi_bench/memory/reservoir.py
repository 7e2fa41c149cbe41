"""Which samples of a batch enter the memory, and where (Vitter 1985, and the batched variant of the replay papers)."""

from __future__ import annotations

from emi_bench.draws import Draws

#: For each sample of a batch the slot it is written to, or -1. A later sample wins a slot that two have chosen.
Slots = list[int]


def batched_reservoir(batch: int, filled: int, n_seen: int, size: int, draws: Draws) -> Slots:
    """The reservoir of the replay papers: one `n_seen` for the whole batch.

    The first samples fill free slots in order. The r that remain draw r independent slots from 0..n-1, with n the count
    after the part that fitted, and enter where the slot is below `size`. Acceptance is a little higher than textbook:
    right after the memory has filled (n = size) every sample enters.
    """
    fit = min(size - filled, batch)
    slots = list(range(filled, filled + fit))
    rest = batch - fit
    if rest and n_seen + fit:
        drawn = draws.integers("reservoir", n_seen + fit, rest).tolist()
        slots += [slot if 0 <= slot < size else -1 for slot in drawn]
    else:
        slots += [-1] * rest
    return slots


def textbook_reservoir(batch: int, filled: int, n_seen: int, size: int, draws: Draws) -> Slots:
    """Vitter's algorithm R: sample number n (from 0) draws from 0..n and enters where that is below `size`."""
    slots: Slots = []
    for n in range(n_seen, n_seen + batch):
        if filled < size:
            slots.append(filled)
            filled += 1
        else:
            slot = int(draws.integers("reservoir", n + 1, 1).item())
            slots.append(slot if 0 <= slot < size else -1)
    return slots
