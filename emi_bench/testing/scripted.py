"""Random choices that a test decides beforehand."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from emi_bench.draws import Draws


class ScriptedDraws(Draws):
    """Answers from a script: for each purpose the values to give, in the order they will be asked for.

    A purpose that the script does not name goes to `fallback`; without one it is an error, so that a test notices a
    choice it did not expect.

    >>> draws = ScriptedDraws({"replay": [[3, 1], [2]]})
    >>> draws.pick("replay", 9, 2), draws.pick("replay", 9, 1)
    (tensor([3, 1]), tensor([2]))
    >>> draws.pick("pool", 9, 2)
    Traceback (most recent call last):
    ...
    LookupError: the script has no answer for 'pool' (it knows: replay)
    """

    def __init__(self, script: Mapping[str, Iterable[Any]], fallback: Draws | None = None) -> None:
        super().__init__(0)
        self.script = {what: deque(values) for what, values in script.items()}
        self.fallback = fallback

    def then(self, script: Mapping[str, Iterable[Any]]) -> None:
        """Append answers, for a test that learns them step by step."""
        for what, values in script.items():
            self.script.setdefault(what, deque()).extend(values)

    def left(self) -> dict[str, int]:
        """Purposes with answers nobody asked for."""
        return {what: len(values) for what, values in self.script.items() if values}

    def _answer(self, what: str, method: str, *args: Any, **kwargs: Any) -> Any:
        values = self.script.get(what)
        if values:
            return values.popleft()
        if self.fallback is None or values is not None:
            known = ", ".join(sorted(self.script)) or "nothing"
            raise LookupError(f"the script has no answer for {what!r} (it knows: {known})")
        return getattr(self.fallback, method)(what, *args, **kwargs)

    def pick(self, what: str, candidates: int | Sequence[int], k: int, *, replace: bool = False) -> Tensor:
        return torch.as_tensor(self._answer(what, "pick", candidates, k, replace=replace), dtype=torch.int64)

    def weighted(self, what: str, weights: Sequence[float], k: int) -> Tensor:
        return torch.as_tensor(self._answer(what, "weighted", weights, k), dtype=torch.int64)

    def permutation(self, what: str, n: int) -> Tensor:
        return torch.as_tensor(self._answer(what, "permutation", n), dtype=torch.int64)

    def integers(self, what: str, high: int, *shape: int) -> Tensor:
        return torch.as_tensor(self._answer(what, "integers", high, *shape), dtype=torch.int64)

    def uniform(self, what: str, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        return torch.as_tensor(self._answer(what, "uniform", *shape, low=low, high=high), dtype=torch.float64)

    def bernoulli(self, what: str, p: float, *shape: int) -> Tensor:
        return torch.as_tensor(self._answer(what, "bernoulli", p, *shape), dtype=torch.bool)

    def beta(self, what: str, a: float, b: float, *shape: int) -> Tensor:
        return torch.as_tensor(self._answer(what, "beta", a, b, *shape), dtype=torch.float64)

    def normal(self, what: str, *shape: int) -> Tensor:
        return torch.as_tensor(self._answer(what, "normal", *shape), dtype=torch.float64)

    def seed(self, what: str) -> int:
        return int(self._answer(what, "seed"))
