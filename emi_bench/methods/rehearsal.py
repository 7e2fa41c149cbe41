"""Rehearsal in parts that can be put together anew: which rows a step learns from, and what it asks of their logits.

ER, ER-ACE and DER++ are written this way, because MKD and CCL-DC take the same rows through other networks as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, Self

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
    """Number and strength (0 to 30) of the operations of `view: randaugment`; CCL-DC's of the data set unless given."""
    per_image: bool = False
    """Whether RandAugment's operations and the place of the padded crop are drawn for each image and not, as in the
    modern papers, once a call."""

    added: ClassVar[frozenset[str]] = frozenset({"per_image"})

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
    """A step: gather the rows, forward and backward each part by itself, one optimiser step; then the memory.

    A cross-entropy of the stream and, once there is a memory, one of the replay; a subclass changes `rows`, `terms` or
    `classify`. No rows, no step: the batch only enters the memory.
    """

    @classmethod
    def make_view(cls, config: MethodConfig, problem: Problem) -> View | None:
        if not isinstance(config, RehearsalConfig):
            return None
        c = config
        if c.view == "randaugment":
            assert c.randaugment is not None
            n_ops, strength = c.randaugment
            return partial(randaugment_view, n_ops=n_ops, strength=strength, per_image=c.per_image)
        return {"none": None, "full": full_view, "partial": partial(partial_view, per_image=c.per_image)}[c.view]

    def rows_of(self, raw: Tensor, labels: Tensor, logits: Tensor | None = None) -> Rows:
        return Rows(raw, self.view_of(raw), labels, logits)

    def rows(self, images: Tensor, labels: Tensor) -> dict[str, Rows]:
        """What a step learns from, in the order of the forwards; empty parts are left out."""
        replay_images, replay_labels = self.replay()
        rows = {"stream": self.rows_of(images, labels)}
        if len(replay_images):
            rows["replay"] = self.rows_of(replay_images, replay_labels)
        return rows

    def terms(self, rows: Mapping[str, Rows], logits: Mapping[str, Tensor]) -> Losses:
        """The loss terms of a network's logits for some parts, with their weights: the sum over all is the loss."""
        return {f"ce_{part}": self.classify(part, logits[part], r.labels) for part, r in rows.items()}

    def classify(self, part: str, logits: Tensor, labels: Tensor) -> Tensor:
        """The cross-entropy of some rows, as the method has it for this part."""
        return F.cross_entropy(logits, labels)

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        images, labels = self.prepare(x, y)
        losses, logits = self.learn(self.rows(images, labels))
        self.keep(x, y, logits)
        return losses

    def learn(self, rows: Mapping[str, Rows]) -> tuple[Losses, dict[str, Tensor]]:
        """One optimiser step: its terms, and what the network said of each part.

        A backward for each part: its graph is gone before the next is made, and the gradients that add up are those of
        one backward of the sum (of two parts bit for bit).
        """
        self.optimizer.zero_grad(set_to_none=True)
        losses: Losses = {}
        logits: dict[str, Tensor] = {}
        for part, r in rows.items():
            said = self.net(r.images)
            terms = self.terms({part: r}, {part: said})
            torch.autograd.backward(total(terms))
            losses |= detached(terms)
            logits[part] = said.detach()
        if rows:
            self.optimizer.step()
        return losses, logits

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
