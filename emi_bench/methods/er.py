"""ER: replay random memory samples with each stream batch (Chaudhry et al., arXiv 1902.10486)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

import torch
from pydantic import Field
from torch import Tensor

from emi_bench.methods.base import Losses, MethodConfig
from emi_bench.methods.rehearsal import Rehearsal, RehearsalConfig, Rows
from emi_bench.problem import Problem


class ReplayConfig(MethodConfig):
    """The reference framework's defaults: SGD 0.1, one step a batch."""

    mem_iters: int = Field(1, ge=1)
    """Optimiser steps on each stream batch, each with a fresh retrieval; the memory is updated once (reference)."""


class ERConfig(ReplayConfig, RehearsalConfig):
    """ER of the EMI paper; `joint: true` with a view and AdamW is what the modern papers call ER."""

    joint: bool = False
    """One forward of [replay; stream] and one mean over all rows (modern papers), not two forwards and two means. While
    the memory is empty there is no step."""

    added: ClassVar[frozenset[str]] = frozenset({"joint", "view", "randaugment"})

    @classmethod
    def modern(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        return super().modern(given) | {"joint": True, "view": "full"}


class ER(Rehearsal):
    """Two forwards, two means with weight one each, one optimiser step on both, then the reservoir.

    Stream and memory are forwarded separately, in this order: each has its own batch statistics and each moves the
    running statistics. With `joint` they are one batch.

    Draws: `replay` (slots, one question a step, also while the memory is empty), those of the view (of the stream, then
    of the replay; once for both with `joint`), `reservoir`.
    """

    name = "er"
    title = "ER"
    cite = "chaudhry2019ER"
    place = 3
    colour = "#56b4e9"
    marker = "o"
    config_class: ClassVar[type[MethodConfig]] = ERConfig
    config: ReplayConfig  # methods built on ER have steps of their own, without `joint` and views

    @classmethod
    def forwards(cls, config: MethodConfig, problem: Problem) -> float:
        return 3.0 * (problem.batch + problem.replay_batch) * cast(ReplayConfig, config).mem_iters

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        images, labels = self.prepare(x, y)
        for _ in range(self.config.mem_iters):
            losses = self.step(images, labels)
        self.store(x, y)
        return losses

    def step(self, images: Tensor, labels: Tensor) -> Losses:
        """One optimiser step on a stream batch in network units; methods built on ER have their own."""
        losses, _ = self.learn(self.rows(images, labels))
        return losses

    def rows(self, images: Tensor, labels: Tensor) -> dict[str, Rows]:
        if not cast(ERConfig, self.config).joint:
            return super().rows(images, labels)
        replay_images, replay_labels = self.replay()
        if not len(replay_images):
            return {}
        return {"joint": self.rows_of(torch.cat([replay_images, images]), torch.cat([replay_labels, labels]))}
