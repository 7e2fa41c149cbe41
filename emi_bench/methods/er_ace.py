"""ER-ACE: the stream may not push old classes down (Caccia et al., ICLR 2022, arXiv 2104.05025)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from emi_bench.losses.asymmetric import Mask, allowed_classes, masked_cross_entropy
from emi_bench.methods.base import MethodConfig
from emi_bench.methods.rehearsal import Rehearsal, RehearsalConfig
from emi_bench.nets.heads import CosineNet
from emi_bench.problem import Problem


class ERACEConfig(RehearsalConfig):
    """SGD 0.1 as for ER, so that rows compare; the modern papers' constants are those of the preset."""

    mask: Mask = "set"
    """Which classes stay in the stream's softmax beside those of the batch: those never met (`set`, what the sources
    mean), those with an id of at least the largest met (`aml`, the authors' program), those never met with an id below
    the number of rows (`ccldc`, a slip that modern tables carry), none (`batch`, Avalanche and the 2023 survey)."""
    head: Literal["linear", "cosine"] = "linear"
    """A plain linear classifier, or the authors' cosine scores times 10."""

    @classmethod
    def modern(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        return super().modern(given) | {"view": "partial"}


class ERACE(Rehearsal):
    """ER with an asymmetric cross-entropy: of the stream over its own and unmet classes, of the replay over all.

    Two forwards, stream first, weights one and one. Replay starts with the second batch and knows no tasks.

    Draws: `replay` (slots, also while the memory is empty), those of the view (of the stream, then of the replay),
    `reservoir`.
    """

    name = "er_ace"
    title = "ER-ACE"
    cite = "caccia2022erace"
    colour = "#0b6e4f"
    marker = "P"
    config_class = ERACEConfig
    config: ERACEConfig
    allowed: Tensor  # (C,) of the last batch

    @classmethod
    def forwards(cls, config: MethodConfig, problem: Problem) -> float:
        return 3.0 * (problem.batch + problem.replay_batch)

    @classmethod
    def make_net(cls, config: MethodConfig, problem: Problem) -> nn.Module:
        if cast(ERACEConfig, config).head == "linear":
            return super().make_net(config, problem)
        return CosineNet(cls.make_encoder(config, problem), problem.n_classes, temperature=0.1, eps=1e-5)

    def prepare(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        images, labels = super().prepare(x, y)
        allowed = allowed_classes(self.config.mask, y.tolist(), self.seen, self.problem.n_classes)
        self.allowed = torch.tensor(allowed).to(self.device, non_blocking=True)
        return images, labels

    def classify(self, part: str, logits: Tensor, labels: Tensor) -> Tensor:
        if part == "stream":
            return masked_cross_entropy(logits, labels, self.allowed)
        return F.cross_entropy(logits, labels)
