"""Weight averaging: evaluate by a running average of the weights (Soutif-Cormerais et al., CoLLAs 2023, 2306.16817)."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from emi_bench.methods.base import Method
from emi_bench.methods.wrapper import Wrapper


class Averaged(Wrapper):
    """Any method, trained as it is and evaluated by r, the average of its network: r <- m r + (1-m) theta.

    r begins as a copy of the initial weights and follows every optimiser step, batch-norm statistics included (their
    counter is copied). Training does not see it: it is bit for bit that of the bare method. Means of stored features
    are computed with r as well. Draws: those of the method.
    """

    def __init__(self, inner: Method, momentum: float) -> None:
        super().__init__(inner)
        told = ("name", "joint", "uses_memory", "learns_in_steps")
        vars(self).update({k: getattr(inner, k) for k in told})
        self.momentum = momentum
        self.average = copy.deepcopy(inner.net).requires_grad_(False)
        inner.optimizer.register_step_post_hook(self._follow)

    @torch.no_grad()
    def _follow(self, *_: Any) -> None:
        pairs = zip(self.average.state_dict().values(), self.inner.net.state_dict().values(), strict=True)
        means: list[Tensor] = []
        weights: list[Tensor] = []
        for r, theta in pairs:
            if r.is_floating_point():
                means.append(r)
                weights.append(theta)
            else:
                r.copy_(theta)
        torch._foreach_lerp_(means, weights, 1 - self.momentum)

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        owner = self.inner
        while isinstance(owner, Wrapper):
            owner = owner.inner
        trained, owner.net = owner.net, self.average
        try:
            yield
        finally:
            owner.net = trained

    def predict(self, x: Tensor) -> Tensor:
        with self._averaged():
            return self.inner.predict(x)

    def predictions(self, x: Tensor) -> dict[str, Tensor]:
        with self._averaged():
            return self.inner.predictions(x)

    def embed(self, x: Tensor) -> Tensor:
        with self._averaged():
            return self.inner.embed(x)


def averaged_where_asked(method: Method) -> Method:
    """The method, wrapped if its constants ask for weight averaging."""
    ema = method.config.ema
    return method if ema is None else Averaged(method, ema.momentum)
