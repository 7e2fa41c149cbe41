"""SCR: supervised contrastive replay with a nearest-class-mean classifier (Mai et al., CVPR-W 2021, 2103.13885)."""

from __future__ import annotations

from typing import Any, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from emi_bench.data.views import scr_view
from emi_bench.losses.supcon import supcon
from emi_bench.methods.base import Losses, Method, MethodConfig, View
from emi_bench.nets.heads import ContrastiveNet, normalised, projection_mlp
from emi_bench.nets.ncm import memory_means, nearest_class
from emi_bench.problem import Problem


class SCRConfig(MethodConfig):
    """The reference framework's defaults. The authors' variant is `temperature: 0.1, review: true`."""

    temperature: float = Field(0.07, gt=0)
    """Of the contrastive loss (the framework's command line; 0.1 in the authors' configuration)."""
    proj_dim: int = Field(128, ge=1)
    """Width of the projection head's output."""
    review: bool = False
    """After each task, one pass over the memory in replay batches, with gradients divided by `review_factor`."""
    review_factor: float = Field(10.0, gt=0)
    """What the review's gradients are divided by (reference framework)."""


class SCR(Method):
    """Memory and stream in one batch, raw and augmented in two forwards; the memory's class means predict.

    The network needs `features(x)` (n,D) and `proj(features)` (n,d); `proj` is normalised here, v / max(|v|, 1e-12),
    so one that already gives unit vectors serves as well. Prediction uses the features alone, in eval mode.

    Draws: `replay` and `reservoir` as in ER; `review` (a permutation of the filled slots, one a task, if reviewing);
    `mean.<class>` (a direction for a class that is seen and not stored, when predicting); those of the view, called
    once a step on [replay; stream] and once for each batch of the review.
    """

    name = "scr"
    title = "SCR"
    cite = "mai2021SCR"
    place = 9
    colour = "#009e73"
    marker = "<"
    config_class = SCRConfig
    config: SCRConfig
    _means: tuple[Tensor, Tensor] | None = None  # class means and their ids, until the network or the memory moves

    @classmethod
    def make_net(cls, config: MethodConfig, problem: Problem) -> nn.Module:
        encoder = cls.make_encoder(config, problem)
        return ContrastiveNet(encoder, projection_mlp(encoder.out_dim, cast(SCRConfig, config).proj_dim))

    @classmethod
    def end_forwards(cls, config: MethodConfig, problem: Problem, n_seen: int) -> float:
        return 7.0 * min(problem.memory, n_seen) * cast(SCRConfig, config).review

    @classmethod
    def make_view(cls, config: MethodConfig, problem: Problem) -> View:
        return scr_view

    def embeddings(self, images: Tensor) -> Tensor:
        """(n,3,H,W) -> (n,d), unit rows"""
        net = cast(ContrastiveNet, self.net)
        return normalised(net.proj(net.features(images)))

    def contrast(self, images: Tensor, labels: Tensor) -> Tensor:
        """The loss of a batch and its views: two separate forwards, each with its own batch statistics."""
        z = self.embeddings(images)
        z_view = self.embeddings(self.view_of(images))
        return supcon(torch.cat([z, z_view]), labels.repeat(2), self.config.temperature)

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        self._means = None
        images, labels = self.prepare(x, y)
        replay_images, replay_labels = self.replay()
        losses = {}
        if len(replay_images):  # the first batch of a run only enters the memory
            loss = self.contrast(torch.cat([replay_images, images]), torch.cat([replay_labels, labels]))
            self.descend(loss)
            losses["supcon"] = loss.detach()
        self.memory.update(x, y, self.draws)
        return losses

    def end_task(self) -> None:
        if self.config.review:
            self.review()
        super().end_task()

    def review(self) -> None:
        """One shuffled pass over the memory; an incomplete last batch is left out."""
        self._means = None
        batch = self.problem.replay_batch
        order = self.draws.permutation("review", self.memory.filled)
        for start in range(0, len(order) - batch + 1, batch):
            x, labels = self.memory.at(order[start : start + batch])
            images = self.pixels(x)
            with torch.no_grad():  # the source forwards each batch once more than it uses: the BN statistics move
                self.embeddings(images)
            self.optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(self.contrast(images, labels))
            torch._foreach_div_(
                [p.grad for p in self.net.parameters() if p.grad is not None], self.config.review_factor
            )
            self.optimizer.step()

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """The seen class whose mean of stored features is nearest."""
        features = cast(ContrastiveNet, self.net).features
        with self.evaluating():
            if self._means is None:
                seen = self.seen or list(range(self.problem.n_classes))
                means = memory_means(lambda stored: features(self.pixels(stored)), self.memory, seen, self.draws)
                self._means = means, torch.tensor(seen, device=self.device)
            means, classes = self._means
            return classes[nearest_class(features(self.pixels(x)), means)]

    def set_extra_state(self, state: dict[str, Any]) -> None:
        super().set_extra_state(state)
        self._means = None
