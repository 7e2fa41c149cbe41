"""MIR: replay what the coming update would hurt most (Aljundi et al., NeurIPS 2019, arXiv 1908.04742)."""

from __future__ import annotations

from typing import Literal, Self, cast

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor
from torch.func import functional_call

from emi_bench.methods.base import Losses, MethodConfig
from emi_bench.methods.er import ER, ReplayConfig
from emi_bench.nets.virtual import virtual_parameters
from emi_bench.problem import Problem


class MIRConfig(ReplayConfig):
    """The reference framework's MIR, with a pool that scales with the replay batch."""

    pool: int | None = Field(None, ge=1)
    """Random candidates a step: 5 x the replay batch, the ratio of the source's 50 to 10. With 50 of 64 nothing
    would be selected at all."""
    virtual_lr: float | None = Field(None, ge=0)
    """Learning rate of the virtual step; the optimiser's `lr`. Under Adam, `lr` says little about the coming step."""
    score_mode: Literal["train", "eval"] = "train"
    """BN statistics of the two scoring forwards: of the pool, which also moves the running ones (reference), or the
    running ones."""

    def resolve(self, problem: Problem) -> Self:
        values = {
            "pool": self.pool or 5 * problem.replay_batch,
            "virtual_lr": self.lr if self.virtual_lr is None else self.virtual_lr,
        }
        return super().resolve(problem).model_copy(update=values)


class MIR(ER):
    """ER with another retrieval: of a random pool, the samples whose loss rises most under a virtual stream-only step.

    Replay starts with the second batch of the first task and may pick from the current task. The scoring forward at the
    present parameters moves the running BN statistics, the one at the virtual parameters does not.

    Draws: `pool` (slots, one question a step, also while the memory is empty), `reservoir`.
    """

    name = "mir"
    title = "MIR"
    cite = "aljundi2019mir"
    place = 4
    colour = "#0072b2"
    marker = "s"
    config_class = MIRConfig
    config: MIRConfig

    @classmethod
    def forwards(cls, config: MethodConfig, problem: Problem) -> float:
        c = cast(MIRConfig, config)
        assert c.pool is not None
        return super().forwards(config, problem) + 2.0 * min(c.pool, problem.memory) * c.mem_iters

    def step(self, images: Tensor, labels: Tensor) -> Losses:
        ce_stream = F.cross_entropy(self.net(images), labels)
        losses = {"ce_stream": ce_stream.detach()}
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(ce_stream)

        replay_images, replay_labels = self.most_interfered()
        if len(replay_images):
            ce_replay = F.cross_entropy(self.net(replay_images), replay_labels)
            torch.autograd.backward(ce_replay)  # adds to the stream's gradient
            losses["ce_replay"] = ce_replay.detach()

        self.optimizer.step()
        return losses

    def most_interfered(self) -> tuple[Tensor, Tensor]:
        """The replay batch, by descending interference. Reads the stream's gradient from the parameters."""
        assert self.config.pool is not None
        slots = self.memory.pick(self.config.pool, self.draws, "pool")
        x, labels = self.memory.at(slots)
        images = self.pixels(x)
        if not len(images):
            return images, labels
        best = self.interference(images, labels).topk(min(self.problem.replay_batch, len(images))).indices
        return images[best], labels[best]

    @torch.no_grad()
    def interference(self, images: Tensor, labels: Tensor) -> Tensor:
        """l(theta - lr g) - l(theta), the rise of each candidate's loss (n,)."""
        assert self.config.virtual_lr is not None
        was = self.net.training
        self.net.train(self.config.score_mode == "train")
        ahead = virtual_parameters(self.net, self.config.virtual_lr)
        before = F.cross_entropy(self.net(images), labels, reduction="none")
        after = F.cross_entropy(functional_call(self.net, ahead, (images,)), labels, reduction="none")
        self.net.train(was)
        return after - before
