"""EMI: enhanced mutual information, by diversity, representativeness and separability (Zhang et al.)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Self, cast

import torch
from torch import Tensor, nn

from emi_bench.losses.dmi import Diversity, dmi, other_share
from emi_bench.losses.ope import ope
from emi_bench.losses.prototypes import prototypes
from emi_bench.losses.rmi import rmi
from emi_bench.losses.smi import smi
from emi_bench.losses.unit import unit
from emi_bench.methods.base import Losses, MethodConfig
from emi_bench.methods.emi_config import EMIConfig
from emi_bench.methods.mutual_information import Batch, Joint, projection
from emi_bench.methods.past_model import PastModel
from emi_bench.nets import ResNet
from emi_bench.nets.dualnet import DualNet, mlp_head
from emi_bench.problem import Problem


class Side(NamedTuple):
    """X or X^b: its images in the joint forward, its labels on the device and on the host."""

    name: Literal["stream", "replay"]
    rows: slice
    labels: Tensor
    y: list[int]


class Prototypes(NamedTuple):
    """p and p' (K,d) of the plain images and of their views, for the classes (K,) of one side."""

    p: Tensor
    p_view: Tensor
    classes: Tensor


class EMI(PastModel):
    """One step is Algorithm 1 of the paper; `observe` gives its lines.

    The net has `features`, `logits`, `proj`; with DMI also `both(x)` (fast and slow features) and a head `slow_proj`.
    Draws: "replay", "slice_stream", "slice_replay", "prototypes.<class>" (slots), "reservoir", those of the view.
    """

    name = "emi"
    title = "EMI"
    cite = "zhang2024emi"
    place = 14
    role = "ours"
    colour = "#d62718"
    marker = "*"
    uses_task_ends = True
    config_class: ClassVar[type[MethodConfig]] = EMIConfig
    config: EMIConfig

    @classmethod
    def forwards(cls, config: MethodConfig, problem: Problem) -> float:
        c = cast(EMIConfig, config)
        b, r, n = problem.batch, problem.replay_batch, problem.n_classes
        classes = n * (1 - (1 - 1 / n) ** (b + r))  # expected in a batch
        shown = 2 * c.n_proto if c.rmi or c.smi else 0  # of each: for its prototypes
        taught = 17 + c.ocm_logit_mse  # the teacher sees 16, but ids under a budget go by 17
        # Blocks that are computed again are not counted: `checkpoint_joint` is in no id.
        return (1.415 if c.dualnet else 1.0) * (3 * (32 * (b + r) + r + shown * classes) + taught * r)

    def __init__(self, config: MethodConfig, problem: Problem, **parts: Any) -> None:
        super().__init__(config, problem, **parts)
        self.train()

    @classmethod
    def make_net(cls, config: MethodConfig, problem: Problem) -> nn.Module:
        assert isinstance(config, EMIConfig)
        if not config.dualnet:
            return super().make_net(config, problem)
        encoder = cls.make_encoder(config, problem)
        assert isinstance(encoder, ResNet)
        net = DualNet(
            encoder,
            problem.n_classes,
            proj=projection(encoder, config),
            fast_net=config.fast_net,
            detach_slow=config.detach_slow,
        )
        if config.dmi:  # made last, so that a seed's other weights do not depend on the switch
            net.slow_proj = mlp_head(encoder.out_dim) if config.slow_head == "mlp" else projection(encoder, config)
        return net

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if self.config.teacher_bn == "eval":
            self.teacher.eval()
        return self

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        c = self.config
        losses: Losses = {}
        record: Losses = {}
        batch = self.gather(x, y, replay=c.first_task == "algorithm1" or self.tasks_done > 0)  # line 3
        joint = self.joint_forward(batch, slow=c.dmi)  # 4, 5
        if c.dmi:
            found = self.diversity(joint, batch)  # 6, 7
            losses |= {f"dmi_{side}": diversity.loss for side, diversity in found.items()}
            record["dmi_other_share"] = other_share(found.values())
        if c.rmi or c.smi:
            table = self.prototypes(batch)  # 8
            losses |= self.representativeness(joint, batch, table) if c.rmi else {}  # 9
            losses |= self.separability(table) if c.smi else {}  # 10
        losses |= self.classify(batch, augment=c.ce_view == "aug", logit_mse=c.ocm_logit_mse)  # 11
        losses |= self.instance_terms(joint) | self.past_term(joint)  # 12
        return self.learn(losses, x, y) | record  # 13, 14

    def diversity(self, joint: Joint, batch: Batch) -> dict[str, Diversity]:
        """DMI of stream and replay, never mixed, on the slow projections of the untouched images and their views; with
        `dmi_rows: rot16` on those of all arrangements, each a class of its own.
        """
        c = self.config
        assert joint.slow is not None
        used = slice(1 if c.dmi_rows == "identity" else None)
        slow, labels = joint.slow[:, used], joint.labels[used]
        projected = unit(cast(Any, self.net).slow_proj(slow.flatten(0, 2))).view(*slow.shape[:3], -1)
        found: dict[str, Diversity] = {}
        for side in sides(batch):
            # Without an intra-class pair the loss is 0. Its gradient must be none at all: a zero one would let Adam's
            # momentum and weight decay move the slow head.
            paired = len(set(side.y)) < len(side.y)
            z, z_view = projected if paired else projected.detach()
            found[side.name] = dmi(
                z[:, side.rows].flatten(0, 1),
                z_view[:, side.rows].flatten(0, 1),
                labels[:, side.rows].flatten(),
                alpha=c.alpha if side.name == "stream" else c.alpha_b,
                tau=c.tau,
                reduction=c.mi_reduction,
                denominator=c.dmi_denominator,
                threshold=c.dmi_threshold,
                pairs=c.dmi_pairs,
                empty_anchor=c.empty_anchor,
            )
        return found

    def prototypes(self, batch: Batch) -> dict[str, Prototypes]:
        """One forward of up to `n_proto` stored images of every class at hand, and of their views: one table, of which
        each side takes the rows of its classes. Classes without a stored image have no prototype.
        """
        slots: list[Tensor] = []
        owner: list[int] = []
        kept: list[int] = []
        for c in sorted({*batch.y, *batch.replay_y}):
            if stored := self.memory.slots_of(c):
                chosen = self.draws.pick(f"prototypes.{c}", stored, self.config.n_proto)
                slots.append(chosen)
                owner += [len(kept)] * len(chosen)
                kept.append(c)
        if not kept:
            none = batch.images.new_zeros(0, 0)
            return {side.name: Prototypes(none, none, batch.labels[:0]) for side in sides(batch)}
        images = self.pixels(self.memory.at(torch.cat(slots))[0])
        net = cast(Any, self.net)
        u = unit(net.proj(net.features(torch.cat([images, self.view_of(images)]))))
        owners = torch.tensor([owner, [o + len(kept) for o in owner]]).flatten().to(self.device, non_blocking=True)
        p, p_view = prototypes(u, owners, 2 * len(kept), renorm=self.config.proto_renorm).chunk(2)
        return {side.name: _rows_of(p, p_view, kept, side.y) for side in sides(batch)}

    def representativeness(self, joint: Joint, batch: Batch, table: Mapping[str, Prototypes]) -> Losses:
        """RMI of the fast projections of the untouched images and their views."""
        c = self.config
        u, u_view = joint.projections[:, 0]
        losses = {}
        for side in sides(batch):
            p, p_view, classes = table[side.name]
            if c.rmi_detach_proto:
                p, p_view = p.detach(), p_view.detach()
            losses[f"rmi_{side.name}"] = rmi(
                *(p, p_view, classes),
                *(u[side.rows], u_view[side.rows], side.labels),
                tau=c.tau,
                reduction=c.mi_reduction,
            )
        return losses

    def separability(self, table: Mapping[str, Prototypes]) -> Losses:
        """SMI between the prototypes of two views."""
        contrast = smi if self.config.smi_form == "infonce" else ope
        return {f"smi_{name}": contrast(t.p, t.p_view, self.config.smi_tau) for name, t in table.items()}

    def total(self, losses: Mapping[str, Tensor]) -> Tensor:
        """The weighted sum of the terms."""
        weight = self.config.loss_weights.of
        return super().total({name: t if weight(name) == 1 else weight(name) * t for name, t in losses.items()})


def sides(batch: Batch) -> list[Side]:
    """X, and X^b unless it is empty."""
    b = len(batch.y)
    both = [Side("stream", slice(b), batch.labels, batch.y)]
    if batch.replay_y:
        both.append(Side("replay", slice(b, None), batch.replay_labels, batch.replay_y))
    return both


def _rows_of(p: Tensor, p_view: Tensor, kept: list[int], y: list[int]) -> Prototypes:
    """The part of the table whose classes occur in y."""
    wanted = set(y)
    rows = [i for i, c in enumerate(kept) if c in wanted]
    classes = torch.tensor([kept[i] for i in rows], dtype=torch.int64).to(p.device, non_blocking=True)
    if len(rows) < len(kept):
        at = torch.tensor(rows, dtype=torch.int64).to(p.device, non_blocking=True)
        p, p_view = p[at], p_view[at]
    return Prototypes(p, p_view, classes)
