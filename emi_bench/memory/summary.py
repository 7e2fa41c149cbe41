"""A memory with slots set aside for summaries: SSD's (Gu et al., arXiv 2305.16645)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from emi_bench.draws import Draws
from emi_bench.memory.memory import Memory


class SummaryMemory(Memory):
    """Of `size` slots, `images_per_class` for each class hold its summary, the rest a reservoir of real images.

    The first images of a class take its summary slots and stay there until `rewrite` replaces them by summarised ones.
    A summary slot never changes hands: once the memory is full, a new class takes its slots from the reservoir, and
    the reservoir writes to none of them. Images are floats, unclamped: summaries are not pixels.

    Draws: `reservoir` (a slot for each image that is left to the reservoir) and `summary` (one of the free slots for an
    image that opens a summary slot in a full memory).

    >>> memory = SummaryMemory(3, (3, 2, 2), images_per_class=1)
    >>> memory.update(torch.rand(3, 3, 2, 2), torch.tensor([7, 7, 4]), Draws(0))
    >>> memory.summary_slots(7), memory.summary_slots(4), memory.free_slots()
    ([0], [2], [1])
    """

    def __init__(
        self,
        size: int,
        image_shape: Sequence[int],
        *,
        images_per_class: int,
        dtype: torch.dtype = torch.float32,
        reservoir: str = "batched",
    ) -> None:
        super().__init__(size, image_shape, dtype=dtype, reservoir=reservoir)
        self.images_per_class = images_per_class
        self._summary: dict[int, list[int]] = {}
        self._is_free = [True] * size

    # --- writing -----------------------------------------------------------------------------------------------

    def update(self, x: Tensor, y: Tensor, draws: Draws, *, extra: Tensor | None = None) -> None:
        """Offer a stream batch, x (n,3,H,W) and y (n,) on the host, sample by sample; there is nothing `extra`."""
        labels = y.tolist()
        fit = min(self.size - self.filled, len(labels))
        missing = {c: self.images_per_class - len(self._summary.get(c, ())) for c in labels}
        opens = []  # whether a sample opens a summary slot of its class
        for c in labels:
            opens.append(missing[c] > 0)
            missing[c] -= 1
        left = opens[fit:].count(False)
        drawn = iter(self.reservoir(left, self.size, self.n_seen + fit, self.size, draws) if left else [])

        slots = []
        for row, (c, opening) in enumerate(zip(labels, opens, strict=True)):
            if row < fit:
                slot = self.filled + row
            elif opening:
                slot = int(draws.pick("summary", self.free_slots(), 1))
            else:
                slot = next(drawn)
                slot = slot if slot >= 0 and self._is_free[slot] else -1
            if opening:
                self._summary.setdefault(c, []).append(slot)
                self._is_free[slot] = False
            slots.append(slot)
        self.write(slots, x, y)
        self.n_seen += len(labels)

    def write(self, slots: Sequence[int], x: Tensor, y: Tensor) -> None:
        """As in `Memory`; uint8 images enter as floats in 0-1."""
        super().write(slots, x.to(self.images.dtype) / 255 if x.dtype == torch.uint8 else x, y)

    def rewrite(self, c: int, images: Tensor) -> None:
        """Put images (images_per_class,3,H,W) into the summary slots of class c, in the order of `summary_slots`."""
        at = torch.tensor(self._summary[c]).to(self.images.device, non_blocking=True)
        self.images[at] = images.to(self.images.dtype)

    # --- reading -----------------------------------------------------------------------------------------------

    @property
    def n_summary(self) -> int:
        """Summary slots of all classes."""
        return sum(len(slots) for slots in self._summary.values())

    def summary_slots(self, c: int) -> list[int]:
        """The summary slots of class c, oldest first."""
        return list(self._summary.get(c, ()))

    def is_complete(self, c: int) -> bool:
        """Whether class c has all its summary slots, and any."""
        return 0 < self.images_per_class == len(self._summary.get(c, ()))

    def free_slots(self) -> list[int]:
        """Slots that are no summary's, filled or not."""
        return [slot for slot, free in enumerate(self._is_free) if free]

    def real_slots(self) -> list[int]:
        """Filled slots that are no summary's."""
        return [slot for slot, free in enumerate(self._is_free[: self.filled]) if free]

    # --- checkpoint --------------------------------------------------------------------------------------------

    def get_extra_state(self) -> dict[str, Any]:
        return super().get_extra_state() | {"summary": {c: list(slots) for c, slots in self._summary.items()}}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        super().set_extra_state(state)
        self._summary = {int(c): list(slots) for c, slots in state["summary"].items()}
        self._is_free = [True] * self.size
        for slots in self._summary.values():
            for slot in slots:
                self._is_free[slot] = False


class Summaries:
    """Z, the master copy of the summaries of one task, under one SGD with momentum.

    A step of one class also moves the rows of the others by what is left of their momentum.

    >>> z = Summaries(lr=0.5, momentum=0.9)
    >>> z.append(4, torch.zeros(1, 3, 1, 1)), z.append(7, torch.zeros(1, 3, 1, 1))
    (None, None)
    >>> z.step(4, torch.ones(1, 3, 1, 1)), z.step(7, torch.ones(1, 3, 1, 1))
    (None, None)
    >>> z.z[:, 0, 0, 0]
    tensor([-0.9500, -0.5000])
    """

    def __init__(self, lr: float, momentum: float) -> None:
        self.lr, self.momentum = lr, momentum
        self.rows: dict[int, slice] = {}
        self.z = self.velocity = torch.empty(0)

    def append(self, c: int, images: Tensor) -> None:
        """Take class c in, with images (ipc,3,H,W) and no momentum."""
        start = len(self.z) if self.rows else 0
        self.rows[c] = slice(start, start + len(images))
        self.z = torch.cat([self.z, images]) if start else images.clone()
        self.velocity = torch.cat([self.velocity, torch.zeros_like(images)]) if start else torch.zeros_like(images)

    def of(self, c: int) -> Tensor:
        """The rows of class c (ipc,3,H,W)."""
        return self.z[self.rows[c]]

    def step(self, c: int, grad: Tensor) -> None:
        """One SGD step on all rows, with a gradient (ipc,3,H,W) on those of class c."""
        self.velocity.mul_(self.momentum)
        self.velocity[self.rows[c]].add_(grad)
        self.z.sub_(self.velocity, alpha=self.lr)
