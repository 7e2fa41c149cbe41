"""MKD: distil from a slow copy of the network (Michel et al., ICML 2024, arXiv 2309.02870)."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Literal, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from emi_bench.losses.distillation import distillation
from emi_bench.methods.base import Losses, MethodConfig
from emi_bench.methods.based import Based, BasedConfig
from emi_bench.methods.rehearsal import detached, total
from emi_bench.problem import Problem


class MKDConfig(BasedConfig):
    """The constants of the shipped configurations."""

    kd_lambda: float = Field(5.5, ge=0)
    """Weight of the distillation (source; 8 in some of its configurations)."""
    tau: float = Field(4.0, gt=0)
    """Temperature of the distillation (source)."""
    alphas: tuple[float, ...] = Field((0.01,), min_length=1)
    """For each teacher the share of the student that it takes in a step (source: one teacher, 0.01)."""
    correction: Literal["source", "standard"] = "source"
    """The source's correction of the average's start is without effect, so that a teacher starts near zero and has half
    of the student's scale after 70 steps (`source`); or a teacher starts as a copy and needs none (`standard`)."""
    correction_step: int = Field(10, ge=1)
    """Stream batches that the correction of `source` counts as one."""

    recipes: ClassVar = {
        "er": {"optimizer": "adam", "lr": 5e-4},
        "er_ace": {"optimizer": "sgd", "lr": 1e-3, "momentum": 0.9},
        "derpp": {"optimizer": "adam", "lr": 1e-4},
    }


class MKD(Based):
    """The base's loss, and KD from each teacher to the student, on the base's view and on the raw image.

    L = L_base + lambda mean over teachers of (KD(z, t) + KD(z', t)) / 2, z = student(view), z' = student(raw),
    t = teacher(view), for each part of the base's rows by itself. Forwards in this order, teachers in train mode: their
    batch-norm statistics move by their own forwards. After the step theta_t <- (1-alpha) theta_t + alpha theta.
    Predicts with the mean of all parameters and the student's statistics. Draws: those of the base.
    """

    name = "mkd"
    title = "MKD"
    cite = "michel2024mkd"
    colour = "#7f5fbf"
    marker = "d"
    version = 2
    config_class = MKDConfig
    config: MKDConfig

    def __init__(self, config: MKDConfig, problem: Problem, **parts: Any) -> None:
        super().__init__(config, problem, **parts)
        self.teachers = nn.ModuleList(copy.deepcopy(self.net).requires_grad_(False) for _ in self.config.alphas)
        if self.config.correction == "source":
            for teacher, alpha in zip(self.teachers, self.config.alphas, strict=True):
                torch._foreach_mul_(list(teacher.parameters()), alpha / (1 - alpha))

    @classmethod
    def forwards(cls, config: MethodConfig, problem: Problem) -> float:
        n_teachers = len(cast(MKDConfig, config).alphas)
        return cls.base_forwards(config, problem) * (2 + n_teachers / 3)

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        base = self.inner
        rows = base.rows(*base.prepare(x, y))
        with torch.no_grad():
            taught = {part: [teacher(r.images) for teacher in self.teachers] for part, r in rows.items()}

        def distilled(part: str, said: Tensor) -> Tensor:
            each = [distillation(said, t, self.config.tau) for t in taught[part]]
            return self.config.kd_lambda / (2 * len(each)) * torch.stack(each).sum()

        self.optimizer.zero_grad(set_to_none=True)
        losses: Losses = {}
        logits, kd = {}, []
        for part, r in rows.items():  # a backward for each forward, as in `Rehearsal.learn`
            said = self.net(r.images)
            terms = base.terms({part: r}, {part: said})
            kd.append(distilled(part, said))
            torch.autograd.backward(total(terms) + kd[-1])
            losses |= detached(terms)
            logits[part] = said.detach()
        for part, r in rows.items():
            kd.append(distilled(part, self.net(r.raw)))
            torch.autograd.backward(kd[-1])
        if rows:
            self.optimizer.step()
            self.follow(self.memory.n_seen + len(x))
            losses["kd"] = torch.stack(kd).detach().sum()
        base.keep(x, y, logits)
        return losses

    @torch.no_grad()
    def follow(self, n_seen: int) -> None:
        """Move the teachers' parameters towards the student's."""
        c = self.config
        student: list[Tensor] = list(self.net.parameters())
        k = max(1, n_seen // (self.problem.batch * c.correction_step))
        for teacher, alpha in zip(self.teachers, c.alphas, strict=True):
            taken = alpha / (1 - alpha**k) if c.correction == "source" else alpha
            mine: list[Tensor] = list(teacher.parameters())
            torch._foreach_mul_(mine, 1 - alpha)
            torch._foreach_add_(mine, student, alpha=taken)

    # --- prediction ------------------------------------------------------------------------------------------------

    @contextmanager
    def _aggregated(self) -> Iterator[None]:
        """Inside, the student has the mean of all parameters; its statistics stay."""
        student = list(self.net.parameters())
        kept = [p.data for p in student]
        everyone = zip(student, *(t.parameters() for t in self.teachers), strict=True)
        means = [torch.stack([p.data for p in one]).mean(0) for one in everyone]
        for p, mean in zip(student, means, strict=True):
            p.data = mean
        try:
            yield
        finally:
            for p, own in zip(student, kept, strict=True):
                p.data = own

    def predict(self, x: Tensor) -> Tensor:
        with self._aggregated():
            return self.inner.predict(x)

    def embed(self, x: Tensor) -> Tensor:
        with self._aggregated():
            return self.inner.embed(x)
