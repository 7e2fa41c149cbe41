"""A method around a method: weight averaging, momentum distillation, collaborative learning."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from emi_bench.methods.base import Losses, Method


class Wrapper(Method):
    """Holds an inner method, which has the network, the memory, the optimiser, the draws and the classes met.

    What is not found here is the inner method's, so that a wrapper writes down only what it changes. State that is its
    own goes into modules and buffers of its own; the inner method keeps the rest.
    """

    def __init__(self, inner: Method) -> None:
        nn.Module.__init__(self)  # the parts that Method's own constructor would make are the inner method's
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "inner":
                raise
            return getattr(self.inner, name)

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        return self.inner.observe(x, y)

    def end_task(self) -> None:
        self.inner.end_task()

    def predict(self, x: Tensor) -> Tensor:
        return self.inner.predict(x)

    def embed(self, x: Tensor) -> Tensor:
        return self.inner.embed(x)

    @property
    def balanced_stream(self) -> bool:
        return self.inner.balanced_stream

    def get_extra_state(self) -> dict[str, Any]:
        return {}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Nothing: the inner method restores itself."""
