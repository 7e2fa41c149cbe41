"""The asymmetric cross-entropy of ER-ACE: a softmax over some of the classes (Caccia et al., ICLR 2022)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, TypeAlias

import torch.nn.functional as F
from torch import Tensor

Mask: TypeAlias = Literal["set", "aml", "ccldc", "batch"]


def allowed_classes(mask: Mask, batch: Sequence[int], seen: Collection[int], n_classes: int) -> list[bool]:
    """For each class whether it stays in the softmax of a stream batch with these labels.

    `seen` holds the classes met so far, those of this batch included.

    >>> allowed_classes("set", [3, 3], {0, 3}, 5)
    [False, True, True, True, True]
    >>> allowed_classes("batch", [3, 3], {0, 3}, 5)
    [False, False, False, True, False]
    """
    present, met = set(batch), set(seen)
    free = {
        "set": set(range(n_classes)) - met,
        "aml": set(range(max(met), n_classes)),
        "ccldc": set(range(len(batch))) - met,
        "batch": set(),
    }[mask]
    return [c in present or c in free for c in range(n_classes)]


def masked_cross_entropy(logits: Tensor, labels: Tensor, allowed: Tensor) -> Tensor:
    """CE of (n,C) logits over the allowed (C,) classes alone; the others get exactly no gradient.

    >>> import torch
    >>> allowed = torch.tensor([False, True, True])
    >>> masked_cross_entropy(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([1]), allowed)
    tensor(0.3133)
    """
    return F.cross_entropy(logits.masked_fill(~allowed, -1e9), labels)
