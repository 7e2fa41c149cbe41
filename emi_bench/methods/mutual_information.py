"""What OCM, OnPro and EMI have in common: the joint forward of the rotation set and its losses."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, ClassVar, Literal, Self, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from emi_bench.data.views import ocm_view, rot16, rot16_labels
from emi_bench.errors import UserError
from emi_bench.losses.ntx import ntx_n, ntx_uni, similarity
from emi_bench.losses.unit import unit
from emi_bench.methods.base import Losses, Method, MethodConfig, View
from emi_bench.nets import Encoder, Net
from emi_bench.nets.recompute import recomputing
from emi_bench.problem import Problem


class MutualInformationConfig(MethodConfig):
    """Adam, normalised pixels and global pooling, as in the sources of OCM and OnPro."""

    optimizer: Literal["sgd", "adam", "adamw"] = "adam"
    """Adam (sources of OCM and OnPro)."""
    lr: float = Field(1e-3, gt=0)
    """Learning rate, constant over the stream (OCM; EMI paper)."""
    betas: tuple[float, float] = (0.9, 0.99)
    """Adam's decay rates (sources of OCM and OnPro; the EMI paper is silent)."""
    weight_decay: float = Field(1e-4, ge=0)
    """L2 inside Adam (sources; EMI paper)."""
    normalize: bool = True
    """Zero-mean, unit-variance pixels (sources)."""
    tau: float = Field(0.07, gt=0)
    """Temperature of the instance losses (sources; EMI paper)."""
    coefficient: float | None = Field(None, gt=0)
    """Factor c of the similarity matrices from the second task on: 0.5 on CIFAR-10, else 1 (sources). 1 in task 1."""
    proj_dim: int | None = Field(None, ge=1)
    """Outputs of the projection head: 128, or 4/5 of the features where the backbone is narrower than the paper's."""
    replay_class_cap: int | None = Field(7, ge=1)
    """At most this many replay samples per class seen so far (7 in the sources of OCM and OnPro); None: no cap."""
    checkpoint_joint: bool = False
    """Recompute the blocks of the joint forward in the backward pass: less activation memory, same results, slower."""

    family_pooling: ClassVar[Literal["avg4", "global"]] = "global"
    cosmetic: ClassVar[frozenset[str]] = frozenset({"checkpoint_joint"})

    def resolve(self, problem: Problem) -> Self:
        values: dict[str, Any] = {
            "coefficient": self.coefficient or (0.5 if problem.dataset == "cifar10" else 1.0),
            "proj_dim": self.proj_dim or min(128, 4 * 8 * problem.width // 5),
        }
        return super().resolve(problem).model_copy(update=values)

    @classmethod
    def modern(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        return super().modern(given) | {"lr": 1e-3, "weight_decay": 0.0}  # OCM's in CCL-DC's configurations


@dataclass(frozen=True)
class Batch:
    """The stream batch X and the replay batch X^b, which may be empty; labels on the device and on the host."""

    images: Tensor
    labels: Tensor
    y: list[int]
    replay_images: Tensor
    replay_labels: Tensor
    replay_y: list[int]


@dataclass(frozen=True)
class Joint:
    """The joint forward of N = B + R images: 16 arrangements of each, plain and augmented, 32 N rows.

    Features and projections are unit rows laid out (view, arrangement, image, .): `[0, 0]` are the untouched images,
    `[1, 0]` their views, images 0..B-1 the stream.
    """

    n_stream: int
    plain: Tensor  #: (16, N, 3, H, W), before the view
    labels: Tensor  #: (16, N) pseudo-labels: each class becomes 16
    features: Tensor  #: (2, 16, N, D)
    projections: Tensor  #: (2, 16, N, P)
    slow: Tensor | None  #: (2, 16, N, D), not normalised; only where a method asks for it


class MutualInformation(Method):
    """The steps that OCM, OnPro and EMI are made of. Not a method by itself.

    The net has `features`, `logits` and a projection head `proj` on the features.
    Draws: "replay" (slots), "slice_stream" and "slice_replay" (starts of the feature slice), "reservoir", and those of
    the view ("view.*").
    """

    config_class: ClassVar[type[MethodConfig]] = MutualInformationConfig
    config: MutualInformationConfig

    @classmethod
    def make_net(cls, config: MethodConfig, problem: Problem) -> nn.Module:
        encoder = cls.make_encoder(config, problem)
        return Net(encoder, problem.n_classes, proj=projection(encoder, config))

    @classmethod
    def make_view(cls, config: MethodConfig, problem: Problem) -> View:
        return ocm_view

    # --- the step, part by part ------------------------------------------------------------------------------------

    def gather(self, x: Tensor, y: Tensor, *, replay: bool = True) -> Batch:
        """The stream batch, with a replay batch drawn for it unless `replay` is off."""
        images, labels = self.prepare(x, y)
        slots = self.memory.pick(self.replay_size(), self.draws) if replay else torch.empty(0, dtype=torch.int64)
        replay_images, replay_labels = self.memory.at(slots)
        replay_y = self.memory.label_list(slots.tolist())
        return Batch(images, labels, y.tolist(), self.pixels(replay_images), replay_labels, replay_y)

    def replay_size(self) -> int:
        """The replay batch, capped by the classes seen so far, the current batch's among them."""
        size, cap = self.problem.replay_batch, self.config.replay_class_cap
        return size if cap is None else min(size, cap * len(self.seen))

    def joint_forward(self, batch: Batch, *, slow: bool = False) -> Joint:
        """One forward of all arrangements of stream and replay images and of their views, so that they share the
        batch statistics; with `slow` the slow features are kept too.
        """
        images = torch.cat([batch.images, batch.replay_images])
        labels = torch.cat([batch.labels, batch.replay_labels])
        plain = rot16(images)
        rows = torch.cat([plain, self.view_of(plain)])
        net = cast(Any, self.net)
        with recomputing(self.net) if self.config.checkpoint_joint else nullcontext():
            features, slow_features = net.both(rows) if slow else (net.features(rows), None)
        shape = (2, 16, len(images), -1)
        return Joint(
            n_stream=len(batch.images),
            plain=plain.view(16, -1, *plain.shape[1:]),
            labels=rot16_labels(labels, self.problem.n_classes).view(shape[1:3]),
            features=unit(features).view(shape),
            projections=unit(net.proj(features)).view(shape),
            slow=None if slow_features is None else slow_features.view(shape),
        )

    def instance_terms(self, joint: Joint) -> Losses:
        """Supervised InfoNCE over the pseudo-classes: `ntx_n` on the stream, `ntx_uni` on the replayed images."""
        b = joint.n_stream
        tau = self.config.tau
        stream, replayed = (slice(None), slice(None), slice(b)), (slice(None), slice(None), slice(b, None))
        losses = {}
        s, labels = self.similarities(joint, stream, "slice_stream")
        losses["ntx_n"] = ntx_n(s, labels, tau)
        if joint.features.shape[2] > b:
            s, labels = self.similarities(joint, replayed, "slice_replay")
            losses["ntx_uni"] = ntx_uni(s, labels, tau)
        return losses

    def similarities(self, joint: Joint, rows: tuple[slice, ...], what: str) -> tuple[Tensor, Tensor]:
        """Similarity matrix of some rows, with a random slice of the features, and the rows' labels."""
        p, f = joint.projections[rows].flatten(0, 2), joint.features[rows].flatten(0, 2)
        start = int(self.draws.integers(what, f.shape[1] - p.shape[1], 1))
        coefficient = self.config.coefficient if self.tasks_done else 1.0
        assert coefficient is not None
        return similarity(p, f, start, coefficient), joint.labels[rows[1:]].flatten().repeat(2)

    def total(self, losses: Mapping[str, Tensor]) -> Tensor:
        """What is differentiated: the sum of the terms."""
        return reduce(add, losses.values())

    def learn(self, losses: Losses, x: Tensor, y: Tensor) -> Losses:
        """Step down the total loss, offer the batch to the memory, return the terms for the record."""
        self.descend(self.total(losses))
        self.memory.update(x, y, self.draws)
        return {name: term.detach() for name, term in losses.items()}


def projection(encoder: Encoder, config: MethodConfig) -> nn.Linear:
    """A linear head that leaves room for the feature slice."""
    assert isinstance(config, MutualInformationConfig)
    assert config.proj_dim is not None
    if config.proj_dim >= encoder.out_dim:
        raise UserError(
            f"proj_dim is {config.proj_dim}, but the backbone has {encoder.out_dim} features",
            hint="choose a proj_dim below the number of features, or leave it out",
        )
    return nn.Linear(encoder.out_dim, config.proj_dim)
