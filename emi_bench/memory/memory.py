"""A fixed number of images with their labels, kept on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from emi_bench.draws import Draws
from emi_bench.memory.reservoir import batched_reservoir, textbook_reservoir

RESERVOIRS = {"batched": batched_reservoir, "textbook": textbook_reservoir}


class Memory(nn.Module):
    """`size` slots of (image, label), and with `extra` of a row of that shape beside them (DER++'s logits).

    Images stay on the device in the dtype they are given (uint8 in a run). Labels are held twice: on the device for the
    losses, on the host for the index of slots by class, which costs O(batch) an update and never waits for the device.

    >>> memory = Memory(3, (3, 2, 2))
    >>> memory.update(torch.zeros(2, 3, 2, 2, dtype=torch.uint8), torch.tensor([7, 4]), Draws(0))
    >>> memory.filled, memory.n_seen, memory.slots_of(4), memory.counts()
    (2, 2, [1], {7: 1, 4: 1})
    """

    images: Tensor
    labels: Tensor
    extra: Tensor | None

    def __init__(
        self,
        size: int,
        image_shape: Sequence[int],
        *,
        dtype: torch.dtype = torch.uint8,
        reservoir: str = "batched",
        extra: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.size = size
        self.reservoir = RESERVOIRS[reservoir]
        self.register_buffer("images", torch.zeros(size, *image_shape, dtype=dtype))
        self.register_buffer("labels", torch.zeros(size, dtype=torch.int64))
        self.register_buffer("extra", None if extra is None else torch.zeros(size, *extra))
        self.filled = 0
        self.n_seen = 0
        self._labels: list[int] = [-1] * size
        self._slots: dict[int, list[int]] = {}  # class -> its slots; classes in first-stored order
        self._place: list[int] = [-1] * size  # slot -> its position in that list

    # --- writing -----------------------------------------------------------------------------------------------

    def update(self, x: Tensor, y: Tensor, draws: Draws, *, extra: Tensor | None = None) -> None:
        """Offer a stream batch, x (n,3,H,W) and y (n,) on the host, to the reservoir; `extra` (n,...) goes along."""
        slots = self.reservoir(len(x), self.filled, self.n_seen, self.size, draws)
        self.write(slots, x, y)
        if extra is not None:
            self._write_extra(slots, extra)
        self.n_seen += len(x)

    def _write_extra(self, slots: Sequence[int], extra: Tensor) -> None:
        assert self.extra is not None
        winner = {slot: row for row, slot in enumerate(slots) if slot >= 0}
        if self.extra.dtype != extra.dtype and extra.dtype == torch.float64:
            self.extra = self.extra.double()  # a recorded trace
        at, rows = torch.tensor([list(winner), list(winner.values())], dtype=torch.int64).to(extra.device)
        self.extra[at] = extra[rows].to(self.extra.dtype)

    def write(self, slots: Sequence[int], x: Tensor, y: Tensor) -> None:
        """Put row i of x, y into slot `slots[i]`; -1 skips the row; a later row wins over an earlier one.

        Free slots are filled in order. `n_seen` is the caller's business.
        """
        winner = {slot: row for row, slot in enumerate(slots) if slot >= 0}
        if not winner:
            return
        if self.filled == 0 and (self.images.dtype != x.dtype or self.images.shape[1:] != x.shape[1:]):
            self.images = torch.zeros(self.size, *x.shape[1:], dtype=x.dtype, device=self.images.device)
        labels = y.tolist()
        device = self.images.device
        rows = torch.tensor(list(winner.values()))
        at = torch.tensor(list(winner)).to(device, non_blocking=True)
        self.images[at] = x[rows.to(x.device, non_blocking=True)].to(device, self.images.dtype)
        self.labels[at] = y[rows.to(y.device)].to(device, non_blocking=True)
        for slot, row in winner.items():
            self._reindex(slot, labels[row])
        self.filled = max(self.filled, max(winner) + 1)

    def write_in_turn(self, slots: Sequence[int], x: Tensor, y: Tensor) -> None:
        """Like `write`, one row after the other: one that is overwritten within the batch was there all the same, and
        the order of the classes shows it. For samplers that let few rows in.
        """
        for row, slot in enumerate(slots):
            if slot >= 0:
                self.write([slot], x[row : row + 1], y[row : row + 1])

    def _reindex(self, slot: int, label: int) -> None:
        """Move one slot to another class in O(1): the last slot of its old class takes its place in that list."""
        old = self._labels[slot]
        if old >= 0:
            mates = self._slots[old]
            last = mates.pop()
            if last != slot:
                mates[self._place[slot]] = last
                self._place[last] = self._place[slot]
            if not mates:
                del self._slots[old]
        mates = self._slots.setdefault(label, [])
        self._labels[slot] = label
        self._place[slot] = len(mates)
        mates.append(slot)

    # --- reading -----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.filled

    def classes(self) -> list[int]:
        """Classes with at least one stored image, in the order in which they first entered."""
        return list(self._slots)

    def counts(self) -> dict[int, int]:
        """Stored images per class."""
        return {c: len(slots) for c, slots in self._slots.items()}

    def slots_of(self, c: int) -> list[int]:
        """The slots of class c (in no particular order; empty if there are none)."""
        return list(self._slots.get(c, ()))

    def label_list(self, slots: Sequence[int] | Tensor) -> list[int]:
        """Labels at host-side slots, on the host."""
        at = slots.tolist() if isinstance(slots, Tensor) else slots
        return [self._labels[s] for s in at]

    def at(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Images (k,3,H,W) and labels (k,) at some slots, both on the device."""
        slots = slots.to(self.images.device, non_blocking=True)
        return self.images[slots], self.labels[slots]

    def extra_at(self, slots: Tensor) -> Tensor:
        """What is kept beside the images at some slots, on the device."""
        assert self.extra is not None
        return self.extra[slots.to(self.extra.device, non_blocking=True)]

    def pick(self, k: int, draws: Draws, what: str = "replay", exclude: Sequence[int] = ()) -> Tensor:
        """min(k, available) filled slots, uniformly without replacement, on the host."""
        if not exclude:
            return draws.pick(what, self.filled, k)
        banned = set(exclude)
        return draws.pick(what, [s for s in range(self.filled) if s not in banned], k)

    def sample(self, k: int, draws: Draws, what: str = "replay") -> tuple[Tensor, Tensor]:
        """A random replay batch; empty tensors while nothing is stored."""
        return self.at(self.pick(k, draws, what))

    # --- checkpoint --------------------------------------------------------------------------------------------

    def get_extra_state(self) -> dict[str, Any]:
        slots = {c: list(s) for c, s in self._slots.items()}
        return {"filled": self.filled, "n_seen": self.n_seen, "slots": slots}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.filled, self.n_seen = state["filled"], state["n_seen"]
        self._slots = {int(c): list(s) for c, s in state["slots"].items()}
        self._labels, self._place = [-1] * self.size, [-1] * self.size
        for c, slots in self._slots.items():
            for place, slot in enumerate(slots):
                self._labels[slot], self._place[slot] = c, place

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        stored = state_dict.get(prefix + "images")
        if stored is not None and (stored.dtype, stored.shape) != (self.images.dtype, self.images.shape):
            self.images = torch.zeros_like(stored, device=self.images.device)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
