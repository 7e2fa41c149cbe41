"""GSS-greedy: keep memory samples whose gradients differ (Aljundi et al., NeurIPS 2019, arXiv 1903.08671)."""

from __future__ import annotations

from typing import Any, cast

import torch
from pydantic import Field
from torch import Tensor

from emi_bench.losses.gradient_geometry import max_cosine
from emi_bench.methods.base import MethodConfig
from emi_bench.methods.er import ER, ERConfig
from emi_bench.nets.gradients import chunk_gradients
from emi_bench.problem import Problem

FIRST_SCORE = 0.1  #: of the samples that enter an empty memory, which have nothing to be compared with


class GSSConfig(ERConfig):
    """The reference framework's GSS."""

    n_subsets: int = Field(10, ge=1)
    """Random memory subsets a sample's gradient is compared with, at most (reference framework)."""
    subset_size: int = Field(10, ge=1)
    """Samples a subset (reference framework)."""


class GSS(ER):
    """ER's step; the memory update compares gradients and replaces samples that resemble the rest.

    The score of a gradient is its largest cosine with the gradients of random memory subsets. Scores are kept per slot
    and never refreshed. All gradients are taken in eval mode, after the optimiser step. `n_seen` is never advanced.

    A full memory costs one wait for the device a step (does the batch conflict?), and a second one if it does.

    Draws: `replay`; `gss_subset` (a permutation of the filled slots, cut into subsets; not asked for an empty memory);
    and, only where a batch may enter a full memory, `gss_slots` (the slots up for replacement, one per stream sample)
    and `gss_replace` (a uniform number per pair: below the probability, the slot is replaced).
    """

    name = "gss"
    title = "GSS"
    cite = "aljundi2019gss"
    place = 5
    colour = "#88ccee"
    marker = "^"
    config_class = GSSConfig
    config: GSSConfig

    scores: Tensor  #: (M,), of the samples in the slots

    @classmethod
    def forwards(cls, config: MethodConfig, problem: Problem) -> float:
        c = cast(GSSConfig, config)
        compared = min(c.n_subsets * c.subset_size, problem.memory) + problem.batch
        return super().forwards(config, problem) + 3.0 * compared

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register_buffer("scores", torch.zeros(self.memory.size, dtype=self.pixel_mean.dtype))

    def store(self, x: Tensor, y: Tensor) -> None:
        free = self.memory.size - self.memory.filled
        with self.evaluating():
            if free:
                self.fill(x[:free], y[:free])  # the rest of the batch is dropped (reference)
            elif self.memory.size:
                self.replace(x, y)

    def fill(self, x: Tensor, y: Tensor) -> None:
        """Store samples in free slots, each with the score of its own gradient."""
        filled = self.memory.filled
        end = filled + len(x)
        if filled:
            self.scores[filled:end] = max_cosine(self.subset_gradients(), self.sample_gradients(x, y))
        else:
            self.scores[:end] = FIRST_SCORE
        self.memory.write(range(filled, end), x, y)

    def replace(self, x: Tensor, y: Tensor) -> None:
        """If the batch's gradient opposes every subset, let its samples compete with slots of high score."""
        subsets = self.subset_gradients()
        batch = chunk_gradients(self.net, self.pixels(x)[None], y.to(self.device, non_blocking=True)[None])
        if max_cosine(subsets, batch).item() >= 0:
            return
        new = max_cosine(subsets, self.sample_gradients(x, y))
        held, offered = torch.split(torch.cat([self.scores, new]).cpu().double(), [len(self.scores), len(x)])
        n = min(len(x), self.memory.size)
        slots = self.draws.weighted("gss_slots", slot_weights(held, n).tolist(), n)
        chance = replace_probability(held[slots], offered[:n])
        rows = torch.nonzero(self.draws.uniform("gss_replace", n) < chance).flatten()
        if len(rows):
            self.memory.write(slots[rows].tolist(), x[rows.to(x.device)], y[rows])
            self.scores[slots[rows].to(self.device)] = new[rows.to(self.device)]

    def subset_gradients(self) -> Tensor:
        """Gradients (n,P) of random memory subsets of equal size."""
        filled = self.memory.filled
        size = min(self.config.subset_size, filled)
        n = min(self.config.n_subsets, filled // size)
        slots = self.draws.permutation("gss_subset", filled)[: n * size]
        x, y = self.memory.at(slots)
        images = self.pixels(x)
        return chunk_gradients(self.net, images.view(n, size, *images.shape[1:]), y.view(n, size))

    def sample_gradients(self, x: Tensor, y: Tensor) -> Tensor:
        """The gradient of every single sample, (B,P)."""
        return chunk_gradients(self.net, self.pixels(x)[:, None], y.to(self.device, non_blocking=True)[:, None])


def slot_weights(scores: Tensor, n: int) -> Tensor:
    """Which slots are up for replacement: (s - min s) / ((max s - min s) + 0.01), for a draw of n distinct ones.

    Where fewer than n slots have a positive weight (all scores equal, say) every weight is raised by 1e-8.

    >>> slot_weights(torch.tensor([0.1, 0.5, -0.3, 0.9], dtype=torch.float64), 2) * 121
    tensor([ 40.,  80.,   0., 120.], dtype=torch.float64)
    """
    low = scores.min()
    weights = (scores - low) / ((scores.max() - low) + 0.01)
    return weights if (weights > 0).sum() >= n else weights + 1e-8


def replace_probability(held: Tensor, offered: Tensor) -> Tensor:
    """(s + 1) / ((s + 1) + (c + 1)): the more a stored sample resembles the rest, the likelier it goes.

    >>> replace_probability(torch.tensor(0.6), torch.tensor(-0.2))
    tensor(0.6667)
    """
    return (held + 1) / ((held + 1) + (offered + 1))
