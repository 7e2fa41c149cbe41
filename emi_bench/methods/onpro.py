"""OnPro: online prototypes, kept apart and fed back (Wei et al., ICCV 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Self, cast

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from emi_bench.losses.apf import (
    mix,
    mixed_labels,
    mixup_cross_entropy,
    pair_counts,
    pair_distances,
    pair_probabilities,
)
from emi_bench.losses.ope import ope
from emi_bench.losses.prototypes import class_means
from emi_bench.losses.unit import unit
from emi_bench.methods.base import Losses, MethodConfig
from emi_bench.methods.mutual_information import Batch, Joint, MutualInformation, MutualInformationConfig
from emi_bench.nets.host_copy import HostCopy
from emi_bench.problem import Problem


class OnProConfig(MutualInformationConfig):
    """The constants of the source; those of the instance losses are OCM's."""

    lr: float = Field(5e-4, gt=0)
    """Learning rate of Adam, constant over the stream (source)."""
    proto_tau: float = Field(0.5, gt=0)
    """Temperature of online prototype equilibrium (source)."""
    mixup_p: float | None = Field(None, ge=0, le=1)
    """Probability of the mixup gates: 0.6 on CIFAR-10, else 0.2 (source)."""
    base_rate: float | None = Field(None, ge=0, le=1)
    """Share of the replay batch that is drawn at random, the rest by prototype distance: CIFAR-10 0.75, else 0.9."""
    mixup_max: float = Field(0.6, ge=0, le=1)
    """Random replay images mix with lambda uniform between 0 and this (source)."""
    mixup_beta: float = Field(0.4, gt=0)
    """Images of close classes mix with lambda from Beta of this, twice (source)."""

    @classmethod
    def modern(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        return super().modern(given) | {"lr": 5e-4, "weight_decay": 1e-4}

    def resolve(self, problem: Problem) -> Self:
        cifar10 = problem.dataset == "cifar10"
        values = {
            "mixup_p": (0.6 if cifar10 else 0.2) if self.mixup_p is None else self.mixup_p,
            "base_rate": (0.75 if cifar10 else 0.9) if self.base_rate is None else self.base_rate,
        }
        return super().resolve(problem).model_copy(update=values)


@dataclass(frozen=True)
class Feedback:
    """A replay batch as APF composes it: `(1 - lam) x_a + lam x_b`, n images, all on the device."""

    images: Tensor
    labels: Tensor  #: averaged class numbers, float64
    a: Tensor
    b: Tensor
    lam: Tensor


@dataclass(frozen=True)
class ClassMeans:
    """The class prototypes of a step, which APF of the next step looks at."""

    classes: list[int]  #: ascending
    means: Tensor  #: (K,P), the average of both views' class means, not of unit length
    distances: HostCopy  #: of all pairs of rows; sent before the backward pass, read by APF a step later

    @classmethod
    def of(cls, classes: list[int], means: Tensor) -> ClassMeans:
        return cls(classes, means.detach(), HostCopy(pair_distances(means)))


class OnPro(MutualInformation):
    """OCM's instance losses without a past model; OPE contrasts class prototypes of two views, of the stream and of
    memory; APF mixes replay images, those of classes with close prototypes above all.

    The first task has no replay: the classifier learns from the stream, prototypes come from memory. Later the
    classifier learns from replay alone, which APF has mixed from the second batch of a task on.
    Draws: "replay", "slice_stream", "slice_replay", "reservoir", those of the view; in the first task
    "onpro_proto_slots" (slots); for APF, in this order: "apf_base" (positions in the replay batch), "apf_perm",
    "apf_active" (gate of the batch), "apf_mixed" (gate of each sample), "apf_lam"; "apf_adjust" (number of a pair, once
    an adjustment); then for every pair with a count k: "apf_pick" (k slots of one class), "apf_pick" (k of the other),
    "apf_pair_active" (one gate), "apf_pair_lam" (k); "apf_class" where a class has no image left.
    """

    name = "onpro"
    title = "OnPro"
    cite = "wei2023onpro"
    place = 13
    colour = "#882255"
    marker = "d"
    uses_task_ends = True
    config_class = OnProConfig
    config: OnProConfig

    @classmethod
    def forwards(cls, config: MethodConfig, problem: Problem) -> float:
        b, r = problem.batch, problem.replay_batch
        return 3.0 * (32 * (b + r) + 3 * r)

    def __init__(self, config: MethodConfig, problem: Problem, **parts: Any) -> None:
        super().__init__(config, problem, **parts)
        self.batch_in_task = 0
        self.classes_mean: ClassMeans | None = None

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        batch = self.gather(x, y, replay=self.tasks_done > 0)
        feedback = self.feedback(batch)
        joint = self.joint_forward(self.fed_back(batch, feedback))
        losses = self.instance_terms(joint)
        losses["ope_new"] = self.ope_new(joint, batch.y)
        # The forwards follow the order of the source, which differs between the tasks: each moves the BN statistics.
        if not batch.replay_y:
            if len(self.memory):
                slots = self.memory.pick(self.problem.replay_batch, self.draws, "onpro_proto_slots")
                images, _ = self.memory.at(slots)
                losses["ope_seen"] = self.ope_seen(self.pixels(images), self.memory.label_list(slots))
            losses["ce"] = F.cross_entropy(self.net(self.view_of(batch.images)), batch.labels)
        else:
            losses["ce"] = self.replay_cross_entropy(batch, feedback)
            losses["ope_seen"] = self.ope_seen(batch.replay_images, batch.replay_y)
        self.batch_in_task += 1
        return self.learn(losses, x, y)

    def end_task(self) -> None:
        super().end_task()
        self.batch_in_task = 0

    # --- online prototype equilibrium ----------------------------------------------------------------------------

    def ope_new(self, joint: Joint, y: list[int]) -> Tensor:
        """OPE of the stream batch: the untouched images and their views are rows of the joint forward."""
        plain, augmented = joint.projections[:, 0, : joint.n_stream]
        classes, owner = self.owners(y)
        return self.contrast(*(class_means(z, owner, len(classes)) for z in (plain, augmented)))

    def ope_seen(self, images: Tensor, y: list[int]) -> Tensor:
        """OPE of stored images, unmixed, in a forward of their own; their prototypes are kept for the next APF."""
        net = cast(Any, self.net)
        z = unit(net.proj(net.features(torch.cat([images, self.view_of(images)]))))
        classes, owner = self.owners(y)
        plain, augmented = (class_means(half, owner, len(classes)) for half in z.chunk(2))
        self.classes_mean = ClassMeans.of(classes, (plain + augmented) / 2)
        return self.contrast(plain, augmented)

    def contrast(self, plain: Tensor, augmented: Tensor) -> Tensor:
        return ope(F.normalize(plain, dim=1), F.normalize(augmented, dim=1), self.config.proto_tau)

    def owners(self, y: list[int]) -> tuple[list[int], Tensor]:
        """The classes of host labels, ascending, and for each label its place among them, on the device."""
        classes = sorted(set(y))
        place = {c: i for i, c in enumerate(classes)}
        return classes, torch.tensor([place[c] for c in y]).to(self.device, non_blocking=True)

    # --- adaptive prototypical feedback --------------------------------------------------------------------------

    def feedback(self, batch: Batch) -> Feedback | None:
        """The replay batch mixed by APF; None at the start of a task and where the last step had fewer than two classes
        to compare.

        The random part comes from the replay batch, and is capped by it if memory held less than was asked for.
        """
        c, draws, last = self.config, self.draws, self.classes_mean
        if not batch.replay_y or not self.batch_in_task or last is None or len(last.classes) < 2:
            return None
        assert c.mixup_p is not None
        assert c.base_rate is not None
        n = self.replay_size()
        n_base = int(n * c.base_rate)

        base = draws.pick("apf_base", len(batch.replay_y), n_base)
        partner = base[draws.permutation("apf_perm", len(base))]
        # One coin for the batch and one for each sample, both with p: p^2 of the samples are mixed, as in the source.
        mixed = draws.bernoulli("apf_active", c.mixup_p) & draws.bernoulli("apf_mixed", c.mixup_p, len(base))
        lam = draws.uniform("apf_lam", len(base), high=c.mixup_max) * mixed

        first, second, pair_lam = self.close_pairs(last, n - n_base)
        stored, _ = self.memory.at(torch.cat([first, second]))
        pool = torch.cat([batch.replay_images, self.pixels(stored)])
        pool_y = torch.tensor(batch.replay_y + self.memory.label_list(first) + self.memory.label_list(second))
        of_first = torch.arange(len(first)) + len(batch.replay_y)
        at_a, at_b = torch.cat([base, of_first]), torch.cat([partner, of_first + len(first)])
        lam = torch.cat([lam, pair_lam])
        a, b = pool_y[at_a], pool_y[at_b]
        labels = mixed_labels(a, b, lam)
        at_a, at_b, a, b = torch.stack([at_a, at_b, a, b]).to(self.device, non_blocking=True)
        labels, lam = torch.stack([labels, lam]).to(self.device, non_blocking=True)
        return Feedback(mix(pool[at_a], pool[at_b], lam), labels, a, b, lam)

    def close_pairs(self, last: ClassMeans, n: int) -> tuple[Tensor, Tensor, Tensor]:
        """n pairs of stored images, slots of the one and of the other, of classes with close prototypes; and lambda."""
        assert self.config.mixup_p is not None
        first: list[Tensor] = []
        second: list[Tensor] = []
        lam: list[Tensor] = []
        counts = pair_counts(pair_probabilities(last.distances.read()), n, self.draws)
        for pair, k in zip(combinations(last.classes, 2), counts, strict=True):
            if k:
                for c, slots in zip(pair, (first, second), strict=True):
                    slots.append(self.draws.pick("apf_pick", self.stored(c), k, replace=True))
                active = self.draws.bernoulli("apf_pair_active", self.config.mixup_p)
                beta = self.config.mixup_beta
                lam.append(self.draws.beta("apf_pair_lam", beta, beta, k) * active)
        nothing = torch.empty(0, dtype=torch.int64)
        return torch.cat([nothing, *first]), torch.cat([nothing, *second]), torch.cat([nothing.double(), *lam])

    def stored(self, c: int) -> list[int]:
        """The slots of a class, ascending; those of a random stored class if the memory has lost all of its images."""
        if not (slots := self.memory.slots_of(c)):
            slots = self.memory.slots_of(int(self.draws.pick("apf_class", sorted(self.memory.classes()), 1)))
        return sorted(slots)

    def fed_back(self, batch: Batch, feedback: Feedback | None) -> Batch:
        """The batch of the joint forward: its replay images are the mixed ones, their labels the averaged numbers."""
        if feedback is None:
            return batch
        return replace(batch, replay_images=feedback.images, replay_labels=feedback.labels)

    def replay_cross_entropy(self, batch: Batch, feedback: Feedback | None) -> Tensor:
        if feedback is None:
            return F.cross_entropy(self.net(self.view_of(batch.replay_images)), batch.replay_labels)
        logits = self.net(self.view_of(feedback.images))
        return mixup_cross_entropy(logits, feedback.a, feedback.b, feedback.lam)

    # --- checkpoint ----------------------------------------------------------------------------------------------

    def get_extra_state(self) -> dict[str, Any]:
        last = self.classes_mean
        kept = None if last is None else {"classes": list(last.classes), "means": last.means}
        return super().get_extra_state() | {"batch_in_task": self.batch_in_task, "classes_mean": kept}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        super().set_extra_state(state)
        self.batch_in_task = state["batch_in_task"]
        kept = state["classes_mean"]
        self.classes_mean = None if kept is None else ClassMeans.of(list(kept["classes"]), kept["means"])
