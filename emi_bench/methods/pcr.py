"""PCR: proxy-based contrastive replay (Lin et al., CVPR 2023, arXiv 2304.04408)."""

from __future__ import annotations

from typing import Any, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from emi_bench.data.views import pcr_view
from emi_bench.losses.proxy import proxy_contrastive
from emi_bench.methods.base import Losses, Method, MethodConfig, View
from emi_bench.nets import Net
from emi_bench.nets.heads import CosineNet
from emi_bench.problem import Problem


class PCRConfig(MethodConfig):
    """The authors' defaults."""

    temperature: float = Field(0.09, gt=0)
    """Of the cosine scores, on every data set (the authors' code)."""


class PCR(Method):
    """Stream with its views, then memory with its views, two forwards; all rows compete for the batch's proxies.

    The network needs `features(x)` (n,D) and `logits(features)` (n,C) = cosine scores over the temperature (a network
    that is given brings its own temperature; the config's goes into the one that `build` makes).

    Draws: `replay` and `reservoir` as in ER; those of the view, called once a step on [replay; stream].
    """

    name = "pcr"
    title = "PCR"
    cite = "lin2023pcr"
    place = 10
    colour = "#aa4499"
    marker = ">"
    config_class = PCRConfig
    config: PCRConfig
    seen_mask: Tensor

    def __init__(self, config: MethodConfig, problem: Problem, **parts: Any) -> None:
        super().__init__(config, problem, **parts)
        self.register_buffer("seen_mask", torch.zeros(problem.n_classes, dtype=torch.bool, device=self.device))

    @classmethod
    def make_net(cls, config: MethodConfig, problem: Problem) -> nn.Module:
        encoder = cls.make_encoder(config, problem)
        return CosineNet(encoder, problem.n_classes, cast(PCRConfig, config).temperature)

    @classmethod
    def make_view(cls, config: MethodConfig, problem: Problem) -> View:
        return pcr_view

    def note_classes(self, y: Tensor) -> None:
        known = len(self.seen)
        super().note_classes(y)
        if len(self.seen) > known:
            self.seen_mask[self.seen[known:]] = True

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        net = cast(Net, self.net)
        images, labels = self.prepare(x, y)
        replay_images, replay_labels = self.replay()
        n = len(replay_images)
        views = self.view_of(torch.cat([replay_images, images]) if n else images)

        losses = {}
        stream = torch.cat([images, views[n:]])
        if n:
            f_stream = net.features(stream)
            f_replay = net.features(torch.cat([replay_images, views[:n]]))
            scores = net.logits(torch.cat([f_replay, f_stream]))
            loss = proxy_contrastive(scores, torch.cat([replay_labels, replay_labels, labels, labels]))
            self.descend(loss)
            losses["pcr"] = loss.detach()
        else:  # nothing to contrast with: only the BN statistics move
            with torch.no_grad():
                net.features(stream)

        self.memory.update(x, y, self.draws)
        return losses

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """The seen class with the largest cosine."""
        with self.evaluating():
            scores = cast(Tensor, self.net(self.pixels(x)))
            return scores.masked_fill(~self.seen_mask, -1e9).argmax(1)
