"""Every random choice of a method is asked of one small object: `Draws` in a run, `testing.ScriptedDraws` in a test.

Choices are made on the host by one numpy generator, whatever the device: a run makes the same choices on a CPU and on a
GPU, asking costs no device synchronisation, and one small state restores all of them from a checkpoint.
Each question carries its purpose (`what`), so that a recorded trace can answer it by name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


class Draws:
    """Seeded random choices; all results are CPU tensors.

    >>> draws = Draws(0)
    >>> draws.pick("replay", 5, 2)
    tensor([3, 4])
    >>> draws.pick("prototypes.7", [11, 12], 6)  # fewer than asked for: all of them, in order
    tensor([11, 12])
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.Generator(np.random.PCG64(seed))

    def pick(self, what: str, candidates: int | Sequence[int], k: int, *, replace: bool = False) -> Tensor:
        """k distinct candidates (slots, ids ...; an int n stands for 0..n-1), uniformly, int64 (k,).

        If there are no more than k candidates, all are returned in their order and nothing is drawn. With `replace`
        the k are independent, so that one may come several times.
        """
        n = candidates if isinstance(candidates, int) else len(candidates)
        if replace:
            chosen = self.rng.integers(0, n, size=k)
        elif k >= n:
            chosen = np.arange(n)
        else:
            chosen = self.rng.choice(n, size=k, replace=False)
        if not isinstance(candidates, int):
            chosen = np.asarray(candidates, dtype=np.int64)[chosen]
        return torch.as_tensor(chosen, dtype=torch.int64)

    def weighted(self, what: str, weights: Sequence[float], k: int) -> Tensor:
        """k distinct indices, drawn one after the other with probability proportional to what is left, int64 (k,).

        An index of weight zero is never drawn; there must be k of positive weight.
        """
        w = np.asarray(weights, dtype=np.float64)
        with np.errstate(divide="ignore"):  # exponential races: the k first arrivals, rates w
            arrival = self.rng.exponential(size=len(w)) / w
        return torch.from_numpy(np.argsort(arrival, kind="stable")[:k])

    def permutation(self, what: str, n: int) -> Tensor:
        """A uniformly random order of 0..n-1, int64 (n,)."""
        return torch.from_numpy(self.rng.permutation(n))

    def integers(self, what: str, high: int, *shape: int) -> Tensor:
        """Independent integers, uniform over 0..high-1, int64."""
        return torch.from_numpy(self.rng.integers(0, high, size=shape))

    def uniform(self, what: str, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        """Independent floats, uniform over [low, high), float64."""
        return torch.from_numpy(self.rng.uniform(low, high, size=shape))

    def bernoulli(self, what: str, p: float, *shape: int) -> Tensor:
        """Independent coin flips with probability p of True, bool."""
        return torch.from_numpy(np.asarray(self.rng.random(size=shape) < p))

    def beta(self, what: str, a: float, b: float, *shape: int) -> Tensor:
        """Independent Beta(a, b) draws, float64."""
        return torch.from_numpy(np.asarray(self.rng.beta(a, b, size=shape)))

    def normal(self, what: str, *shape: int) -> Tensor:
        """Independent standard normal draws, float64."""
        return torch.from_numpy(np.asarray(self.rng.standard_normal(size=shape)))

    def seed(self, what: str) -> int:
        """A fresh seed, for what has to be seeded rather than drawn (new network weights)."""
        return int(self.rng.integers(0, 2**62))

    def state(self) -> str:
        """Where the generator stands, as JSON."""
        return json.dumps(self.rng.bit_generator.state)

    def restore(self, state: str) -> None:
        """Go back to a `state()`."""
        self.rng.bit_generator.state = json.loads(state)
