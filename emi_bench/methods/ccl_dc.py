"""CCL-DC: two peers teach each other from harder views (Wang et al., CVPR 2024, arXiv 2312.00600)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Self, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from emi_bench.data.views import crop_view, randaugment_view
from emi_bench.losses.distillation import distillation
from emi_bench.methods.base import Losses, MethodConfig, View
from emi_bench.methods.based import Based, BasedConfig
from emi_bench.methods.rehearsal import Rows, detached, joined, randaugment_strength, total
from emi_bench.nets.peers import Peers
from emi_bench.problem import Problem

LAMBDA = {"er": 2.0, "er_ace": 1.0, "derpp": 1.0}
TAU = {"er": 4.0, "er_ace": 4.0, "derpp": 3.0}
BASE_WEIGHT = {"er": 0.5, "er_ace": 1.0, "derpp": 1.0}  # of the base's own loss


class CCLDCConfig(BasedConfig):
    """The constants of the source, which depend on the base."""

    kd_lambda: float | None = Field(None, ge=0)
    """Weight of the distillation: 2 over ER, 1 over ER-ACE and DER++ (source)."""
    tau: float | None = Field(None, gt=0)
    """Temperature of the distillation: 4, over DER++ 3 (source)."""
    randaugment: tuple[int, int] | None = None
    """Number and strength (0 to 30) of the chain's RandAugment: 3 and 15, on Tiny-ImageNet 1 and 11 (source)."""
    per_image: bool = False
    """Whether it draws its operations for each image and not, as the source does, once for all rows."""

    added: ClassVar[frozenset[str]] = frozenset({"per_image"})
    recipes: ClassVar = {base: {"optimizer": "adamw", "lr": 5e-4, "weight_decay": 1e-4} for base in LAMBDA}

    def resolve(self, problem: Problem) -> Self:
        values = {
            "kd_lambda": LAMBDA[self.base] if self.kd_lambda is None else self.kd_lambda,
            "tau": self.tau or TAU[self.base],
            "randaugment": self.randaugment or randaugment_strength(problem),
        }
        return super().resolve(problem).model_copy(update=values)


class CCLDC(Based):
    """Two networks with weights of their own learn the same rows by the base's loss, by the cross-entropy of a chain of
    ever harder views v0 (raw), v1, v2, v3, and from each other.

    For peer a and the other o: D_a = KD(a(v3), o(v3)) + KD(a(v0), o(v1)) + KD(a(v1), o(v2)) + KD(a(v2), o(v3)),
    L_a = w L_base + 1/2 sum_k CE(a(v_k)) + lambda D_a. All forwards of both come first (per peer the base's views, then
    v3, v0, v1, v2 of each part). Neither loss reaches the other peer, so one step on their sum is a step of each.
    Predicts with the mean of both logits; each peer alone is recorded beside it.

    Draws: those of the base; then of the chain, for each part of the rows: crop and flip, and two RandAugment calls.
    """

    name = "ccl_dc"
    title = "CCL-DC"
    cite = "wang2024ccldc"
    colour = "#c44e52"
    marker = "8"
    version = 2
    config_class = CCLDCConfig
    config: CCLDCConfig

    def __init__(self, config: CCLDCConfig, problem: Problem, **parts: Any) -> None:
        super().__init__(config, problem, **parts)
        assert self.config.randaugment is not None
        n_ops, strength = self.config.randaugment
        each = self.config.per_image
        harder = partial(randaugment_view, n_ops=n_ops, strength=strength, per_image=each)
        self.chain: tuple[View, View, View] = (crop_view, harder, harder)

    @classmethod
    def make_net(cls, config: MethodConfig, problem: Problem) -> nn.Module:
        return Peers(super().make_net(config, problem), super().make_net(config, problem))

    @classmethod
    def forwards(cls, config: MethodConfig, problem: Problem) -> float:
        rows = problem.batch + problem.replay_batch
        return 2 * (cls.base_forwards(config, problem) + 12.0 * rows)

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        base, peers = self.inner, cast(Peers, self.net)
        rows = base.rows(*base.prepare(x, y))
        if not rows:
            base.keep(x, y, {})
            return {}
        lessons = self.lessons(rows)
        views = {part: self.views(r.raw) for part, r in lessons.items()}
        said = [self.forward_all(peer, rows, views) for peer in peers.both]
        terms: Losses = {}
        for number, (mine, other) in enumerate([said, said[::-1]], 1):
            terms |= {f"{name}_{number}": term for name, term in self.peer_terms(rows, lessons, mine, other).items()}
        self.descend(total(terms))
        base.keep(x, y, {part: (z + said[1][0][part]) / 2 for part, z in said[0][0].items()})
        return detached(terms)

    def lessons(self, rows: Mapping[str, Rows]) -> dict[str, Rows]:
        """The rows that the peers teach each other: those of the base; over DER++ stream and second draw together."""
        if self.config.base != "derpp":
            return dict(rows)
        return {"joint": joined(*(rows[part] for part in ("stream", "ce") if part in rows))}

    def views(self, raw: Tensor) -> list[Tensor]:
        """v0 .. v3, each made from the one before."""
        chain = [raw]
        for view in self.chain:
            chain.append(view(chain[-1], self.draws))
        return chain

    def forward_all(
        self, peer: nn.Module, rows: Mapping[str, Rows], views: Mapping[str, list[Tensor]]
    ) -> tuple[dict[str, Tensor], dict[str, list[Tensor]]]:
        """A peer's logits of the base's views by part, and of the chain by part and link."""
        plain = {part: peer(r.images) for part, r in rows.items()}
        chained = {}
        for part, (v0, v1, v2, v3) in views.items():
            hardest = peer(v3)
            chained[part] = [peer(v0), peer(v1), peer(v2), hardest]
        return plain, chained

    def peer_terms(self, rows: Mapping[str, Rows], lessons: Mapping[str, Rows], mine: Any, other: Any) -> Losses:
        c, base = self.config, self.inner
        assert c.tau is not None
        assert c.kd_lambda is not None
        (logits, chain), (_, theirs) = mine, other
        views, kd = [], []
        for part, r in lessons.items():
            views += [base.classify(part, z, r.labels) for z in chain[part]]
            kd += [distillation(chain[part][a], theirs[part][o], c.tau) for a, o in ((3, 3), (0, 1), (1, 2), (2, 3))]
        return {
            "base": BASE_WEIGHT[c.base] * total(base.terms(rows, logits)),
            "views": 0.5 * torch.stack(views).sum(),
            "kd": c.kd_lambda * torch.stack(kd).sum(),
        }

    @torch.no_grad()
    def predictions(self, x: Tensor) -> dict[str, Tensor]:
        with self.evaluating():
            one, two = (peer(self.pixels(x)) for peer in cast(Peers, self.net).both)
            return {"": ((one + two) / 2).argmax(1), "peer 1": one.argmax(1), "peer 2": two.argmax(1)}
