"""DER++: stay close to the logits a sample had when it was met (Buzzega et al., NeurIPS 2020, arXiv 2004.07211)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from emi_bench.memory import Memory
from emi_bench.methods.base import Losses, MethodConfig
from emi_bench.methods.rehearsal import Rehearsal, RehearsalConfig, Rows
from emi_bench.problem import Problem


class DERppConfig(RehearsalConfig):
    """The weights of the modern papers. `beta: 0` is DER."""

    lr: float = Field(0.03, gt=0)
    """Learning rate of SGD: of a published one-epoch command for CIFAR-100; not tuned here."""
    alpha: float = Field(0.2, ge=0)
    """Weight of the squared distance to the stored logits (CCL-DC, MKD)."""
    beta: float = Field(1.0, ge=0)
    """Weight of the replay's cross-entropy (CCL-DC, MKD)."""
    source_bn: bool = False
    """With `alpha: 0` or `beta: 0`, forward the replay batch of that term all the same: it moves the BN statistics."""

    @classmethod
    def modern(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        return super().modern(given) | {"view": "partial"}


class DERpp(Rehearsal):
    """L = CE(stream) + alpha MSE(net(m1), stored logits of m1) + beta CE(m2), m1 and m2 drawn independently.

    Three forwards in this order, one step. The logits stored with a sample are those of this step's stream forward, so
    of its view and before the update; all C of them, never refreshed.

    Draws: `replay_mse`, `replay_ce` (slots, also while the memory is empty), those of the view (stream, m1, m2),
    `reservoir`.
    """

    name = "derpp"
    title = "DER++"
    cite = "buzzega2020der"
    colour = "#8c564b"
    marker = "X"
    config_class = DERppConfig
    config: DERppConfig

    @classmethod
    def forwards(cls, config: MethodConfig, problem: Problem) -> float:
        c = cast(DERppConfig, config)
        replayed = 2 if c.source_bn else bool(c.alpha) + bool(c.beta)
        return 3.0 * (problem.batch + replayed * problem.replay_batch)

    @classmethod
    def make_memory(cls, config: MethodConfig, problem: Problem) -> Memory:
        return Memory(problem.memory, problem.image_shape, reservoir=problem.reservoir, extra=(problem.n_classes,))

    def keep(self, x: Tensor, y: Tensor, logits: Mapping[str, Tensor]) -> None:
        self.memory.update(x, y, self.draws, extra=logits["stream"].detach())

    def rows(self, images: Tensor, labels: Tensor) -> dict[str, Rows]:
        c = self.config
        rows = {"stream": self.rows_of(images, labels)}
        for part, weight in {"mse": c.alpha, "ce": c.beta}.items():
            if weight or c.source_bn:
                slots = self.memory.pick(self.problem.replay_batch, self.draws, f"replay_{part}")
                if len(slots):
                    replayed, replayed_labels = self.memory.at(slots)
                    rows[part] = self.rows_of(self.pixels(replayed), replayed_labels, self.memory.extra_at(slots))
        return rows

    def terms(self, rows: Mapping[str, Rows], logits: Mapping[str, Tensor]) -> Losses:
        terms: Losses = {}
        if "stream" in rows:
            terms["ce_stream"] = self.classify("stream", logits["stream"], rows["stream"].labels)
        if "mse" in rows:
            stored = rows["mse"].logits
            assert stored is not None
            terms["mse"] = self.config.alpha * F.mse_loss(logits["mse"].to(stored.dtype), stored)
        if "ce" in rows:
            terms["ce_replay"] = self.config.beta * self.classify("ce", logits["ce"], rows["ce"].labels)
        return terms
