"""Rehearsal in parts that can be put together anew: which rows a step learns from, and what it asks of their logits.

ER, ER-ACE and DER++ are written this way, because MKD and CCL-DC take the same rows through other networks as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from emi_bench.data.views import full_view, partial_view, randaugment_view
from emi_bench.methods.base import Losses, Method, MethodConfig, View
from emi_bench.problem import Problem


def randaugment_strength(problem: Problem) -> tuple[int, int]:
    """Operations and their strength (of 31) in CCL-DC's configurations; those of CIFAR where it has none."""
    return (1, 11) if problem.dataset == "tinyimagenet" else (3, 15)


class RehearsalConfig(MethodConfig):
    """What the modern papers change about rehearsal beside the optimiser."""

    view: Literal["none", "full", "partial", "randaugment"] = "none"
    """What stream and replay images go through: nothing (the EMI paper), the modern papers' crop, flip, jitter and grey
    (`full`), their padded crop and flip (`partial`), or RandAugment."""
    randaugment: tuple[int, int] | None = None
    """Number and strength (of 31) of the operations of `view: randaugment`; CCL-DC's for the data set unless given."""

    def resolve(self, problem: Problem) -> Self:
        strength = self.randaugment or (randaugment_strength(problem) if self.view == "randaugment" else None)
        return super().resolve(problem).model_copy(update={"randaugment": strength})


@dataclass(frozen=True)
class Rows:
    """Images that go through a network together."""

    raw: Tensor  #: in network units, without a view
    images: Tensor  #: the view of them that the method learns from
    labels: Tensor
    logits: Tensor | None = None  #: what the network said of them when they were stored (DER++)

    def __len__(self) -> int:
        return len(self.labels)


def joined(*parts: Rows) -> Rows:
    """Several rows as one forward."""
    raw, images, labels = (torch.cat([getattr(p, k) for p in parts]) for k in ("raw", "images", "labels"))
    return Rows(raw, images, labels)


class Rehearsal(Method):
    """A step: gather the rows, forward each part by itself, add up the terms, descend; then the memory.

    A subclass writes `rows` and `terms`. No rows, no step: the batch only enters the memory.
    """

    @classmethod
    def make_view(cls, config: MethodConfig, problem: Problem) -> View | None:
        if not isinstance(config, RehearsalConfig):
            return None
        c = config
        if c.view == "randaugment":
            assert c.randaugment is not None
            return partial(randaugment_view, n_ops=c.randaugment[0], strength=c.randaugment[1])
        return {"none": None, "full": full_view, "partial": partial_view}[c.view]

    def viewed(self, images: Tensor) -> Tensor:
        return images if self.view is None else self.view(images, self.draws)

    def rows_of(self, raw: Tensor, labels: Tensor, logits: Tensor | None = None) -> Rows:
        return Rows(raw, self.viewed(raw), labels, logits)

    def rows(self, images: Tensor, labels: Tensor) -> dict[str, Rows]:
        """What a step learns from, in the order of the forwards; empty parts are left out."""
        raise NotImplementedError

    def terms(self, rows: Mapping[str, Rows], logits: Mapping[str, Tensor]) -> Losses:
        """The loss terms of a network's logits for each part, with their weights: their sum is the loss."""
        raise NotImplementedError

    def classify(self, part: str, logits: Tensor, labels: Tensor) -> Tensor:
        """The cross-entropy of some rows, as the method has it for this part."""
        return F.cross_entropy(logits, labels)

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        images, labels = self.prepare(x, y)
        losses = self.step(images, labels)
        self.store(x, y)
        return losses

    def step(self, images: Tensor, labels: Tensor) -> Losses:
        """One optimiser step on a stream batch in network units."""
        rows = self.rows(images, labels)
        terms = self.terms(rows, {part: self.net(r.images) for part, r in rows.items()})
        if terms:
            self.descend(total(terms))
        return detached(terms)

    def keep(self, x: Tensor, y: Tensor, logits: Mapping[str, Tensor]) -> None:
        """Store a batch after its step, with what the network said of each part."""
        self.store(x, y)

    def store(self, x: Tensor, y: Tensor) -> None:
        """Offer the stream batch to the memory, after the last optimiser step."""
        self.memory.update(x, y, self.draws)


def total(terms: Losses) -> Tensor:
    """The sum of loss terms, in their order."""
    first, *rest = terms.values()
    for term in rest:
        first = first + term
    return first


def detached(terms: Losses) -> Losses:
    return {name: term.detach() for name, term in terms.items()}
