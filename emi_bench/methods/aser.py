"""ASER: replay by adversarial Shapley value (Shim et al., AAAI 2021, arXiv 2009.00093)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Self, cast

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from emi_bench.losses.shapley import knn_shapley
from emi_bench.methods.base import Losses, MethodConfig
from emi_bench.methods.er import ER, ReplayConfig
from emi_bench.nets import Net
from emi_bench.problem import Problem

#: Samples per class of the authors' configurations; Tiny-ImageNet takes Mini-ImageNet's.
SAMPLES_PER_CLASS = {"cifar10": 9.0, "cifar100": 2.0, "tinyimagenet": 3.0}
PIXELS_AT_ONCE = 256 * 32 * 32  #: of one eval-mode forward


def samples_per_class(problem: Problem) -> float:
    """The authors' value; for other data sets that of the nearest number of classes, at most half a class's slots.

    >>> samples_per_class(Problem("digits", 10, 5, 8, memory=100))
    5.0
    """
    if problem.dataset in SAMPLES_PER_CLASS:
        return SAMPLES_PER_CLASS[problem.dataset]
    by_classes = 9 if problem.n_classes <= 10 else 2 if problem.n_classes <= 100 else 3
    return float(max(1, min(by_classes, problem.memory // (2 * problem.n_classes))))


class ASERConfig(ReplayConfig):
    """The authors' configuration."""

    k: int = Field(3, ge=1)
    """Neighbours of the K-NN whose Shapley values are taken (authors' configuration)."""
    n_smp_cls: float | None = Field(None, ge=1)
    """Samples per class in a class-balanced set: 9 / 2 / 3 for CIFAR-10 / CIFAR-100 / Tiny-ImageNet (authors'
    configuration). Balanced sets take its integer part, the update's candidates the integer part of it times C."""
    score: Literal["asvm", "asv", "neg_sv"] = "asvm"
    """mean(coop) - mean(adv), max(coop) - min(adv), or -sum(adv) (authors' configuration: asvm)."""

    def resolve(self, problem: Problem) -> Self:
        values = {"n_smp_cls": self.n_smp_cls or samples_per_class(problem)}
        return super().resolve(problem).model_copy(update=values)


class ASER(ER):
    """Replays candidates that help the memory and hurt the stream batch; keeps those that help most.

    The loss is one mean over replay and stream together. The source first runs the stream and the replay batch through
    the network one by one and throws their gradients away: those two forwards stay (they move the running BN
    statistics), their backwards do not. Shapley values are taken on eval-mode features.

    An update of a full memory waits once for the device: the host keeps the index of slots by class.

    Draws: `replay` (slots, while no more has been seen than fits), then `candidates.<class>` and `coop.<class>` (slots
    of every stored class, the latter without the candidates and not for `neg_sv`); in an update of a full memory
    `eval.<class>`, `update_candidates` (slots) and `aser_threshold` (uniform over 0..1/C). A set is asked for even
    where nothing is left to choose from.
    """

    name = "aser"
    title = "ASER"
    cite = "shim2021ASER"
    place = 6
    colour = "#332288"
    marker = "D"
    config_class = ASERConfig
    config: ASERConfig

    @classmethod
    def forwards(cls, config: MethodConfig, problem: Problem) -> float:
        n = cast(ASERConfig, config).n_smp_cls
        assert n is not None
        return (1 + 3.2 * (n / samples_per_class(problem))) * super().forwards(config, problem)  # scored by the class

    def step(self, images: Tensor, labels: Tensor) -> Losses:
        with torch.no_grad():
            self.net(images)
            replay_images, replay_labels = self.retrieve(images, labels)
            if len(replay_images):
                self.net(replay_images)
        both = torch.cat([replay_images, images]), torch.cat([replay_labels, labels])
        ce = F.cross_entropy(self.net(both[0]), both[1])
        self.descend(ce)
        return {"ce": ce.detach()}

    def retrieve(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The candidates of highest score; fewer than a replay batch while few classes are stored."""
        if self.memory.n_seen <= self.memory.size:
            return self.replay()
        cand = self.balanced("candidates")
        coop = self.balanced("coop", exclude=cand) if self.config.score != "neg_sv" else []
        x, y = self.memory.at(torch.tensor(cand + coop, dtype=torch.int64))
        n = len(cand)
        stored = self.features_of(x)
        with self.evaluating():
            incoming = cast(Net, self.net).features(images)
        adv_sv = knn_shapley(stored[:n], y[:n], incoming, labels, k=self.config.k)
        coop_sv = knn_shapley(stored[:n], y[:n], stored[n:], y[n:], k=self.config.k)
        best = torch.argsort(scores(coop_sv, adv_sv, self.config.score), descending=True, stable=True)
        best = best[: self.problem.replay_batch]
        return self.pixels(x[best]), y[best]

    @torch.no_grad()
    def store(self, x: Tensor, y: Tensor) -> None:
        memory = self.memory
        free = min(memory.size - memory.filled, len(x))
        memory.write(range(memory.filled, memory.filled + free), x[:free], y[:free])
        memory.n_seen += free
        if memory.size and memory.filled == memory.size and free < len(x):
            self.compete(x[free:], y[free:])
            memory.n_seen += len(x) - free

    def compete(self, x: Tensor, y: Tensor) -> None:
        """Stream samples take the slots of random memory candidates whose Shapley values are lower than theirs."""
        memory, c = self.memory, self.problem.n_classes
        assert self.config.n_smp_cls is not None
        threshold = float(self.draws.uniform("aser_threshold", high=1 / c))
        counts = memory.counts()
        minority = [i for i, label in enumerate(y.tolist()) if counts.get(label, 0) / memory.size < threshold]
        points = self.balanced("eval")
        cand = memory.pick(int(self.config.n_smp_cls * c), self.draws, "update_candidates", exclude=points).tolist()

        stored, stored_y = memory.at(torch.tensor(points + cand, dtype=torch.int64))
        features = self.features_of(torch.cat([stored, x.to(stored)]))
        labels = torch.cat([stored_y, y.to(self.device, non_blocking=True)])
        # rows are: evaluation points, memory candidates, stream samples; a minority sample is both of the last kinds
        first = len(points) + len(cand)
        rows = torch.tensor([*range(len(points)), *(first + i for i in minority)]).to(self.device, non_blocking=True)
        column = slice(len(points), None)
        sv = knn_shapley(features[column], labels[column], features[rows], labels[rows], k=self.config.k).sum(0)
        order = torch.argsort(sv, descending=True, stable=True).tolist()

        kept, discarded = order[: len(cand)], order[len(cand) :]
        entering = [i - len(cand) for i in kept if i >= len(cand)]
        leaving = [cand[i] for i in discarded if i < len(cand)]
        memory.write(leaving, x[torch.tensor(entering, dtype=torch.int64).to(x.device)], y[entering])

    def balanced(self, what: str, exclude: Iterable[int] = ()) -> list[int]:
        """Up to n slots of every stored class, in the order in which classes came."""
        assert self.config.n_smp_cls is not None
        banned, n = set(exclude), int(self.config.n_smp_cls)
        chosen: list[int] = []
        for c in self.memory.classes():
            slots = [s for s in self.memory.slots_of(c) if s not in banned]
            chosen += self.draws.pick(f"{what}.{c}", slots, n).tolist()
        return chosen

    def features_of(self, x: Tensor) -> Tensor:
        """Eval-mode features (n,D) of stored images; in parts, so that 1200 images of 64x64 need no gigabyte."""
        part = max(1, PIXELS_AT_ONCE // (x.shape[2] * x.shape[3]))
        return torch.cat([self.embed(images) for images in torch.split(x, part)])


def scores(coop_sv: Tensor, adv_sv: Tensor, kind: str) -> Tensor:
    """The adversarial Shapley value of each candidate (N,), from those on cooperative (E1,N) and stream points (E2,N).

    An empty cooperative set counts 0.
    """
    if kind == "neg_sv":
        return -adv_sv.sum(0)
    if not len(coop_sv):
        coop_sv = adv_sv.new_zeros(1, adv_sv.shape[1])
    if kind == "asv":
        return coop_sv.amax(0) - adv_sv.amin(0)
    return coop_sv.mean(0) - adv_sv.mean(0)
