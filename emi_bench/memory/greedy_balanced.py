"""GDumb's sampler: every class an equal share, whoever comes first (Prabhu et al., ECCV 2020)."""

from __future__ import annotations

from collections.abc import Sequence

from emi_bench.draws import Draws
from emi_bench.memory.memory import Memory


def greedy_balanced(labels: Sequence[int], memory: Memory, draws: Draws) -> list[int]:
    """For each sample of a batch, in its order, the slot it is written to, or -1; for `Memory.write_in_turn`.

    With K classes stored, a sample enters if its class is new or holds fewer than M // K. Where the memory is full a
    random sample of a largest class (the one that came first, if several are) makes room; that is never the sample's
    own class. The slot to clear is asked for under the purpose `evict`.

    >>> import torch
    >>> memory = Memory(4, (3, 1, 1))
    >>> memory.write(range(4), torch.zeros(4, 3, 1, 1), torch.tensor([7, 7, 7, 7]))
    >>> slots = greedy_balanced([7, 5, 5, 5], memory, Draws(0))
    >>> slots[0], len(set(slots[1:3])), slots[3]
    (-1, 2, -1)
    """
    held = {c: memory.slots_of(c) for c in memory.classes()}
    filled = memory.filled
    chosen = []
    for y in labels:
        share = memory.size // max(1, len(held))
        if not memory.size or (y in held and len(held[y]) >= share):
            chosen.append(-1)
            continue
        if filled < memory.size:
            slot = filled
            filled += 1
        else:
            largest = max(held, key=lambda c: len(held[c]))
            slot = int(draws.pick("evict", held[largest], 1))
            held[largest].remove(slot)
            if not held[largest]:
                del held[largest]
        held.setdefault(y, []).append(slot)
        chosen.append(slot)
    return chosen
