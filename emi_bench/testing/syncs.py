"""Finds the places where a step would wait for the device, on a machine that has none.

Whatever is computed from images, weights or the memory would live on the device; labels of the stream and the method's
draws are on the host. So results of the former are followed through every operation, and a look at one of them
(`.item()`, `if loss > 0`, `.tolist()`, a mask as an index ...) is what a GPU would have to wait for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from emi_bench.testing.failure import SourceFile

#: Operations whose result's size, or value on the host, depends on what a tensor holds.
LOOKS = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_consecutive", "unique_dim", "equal"}
#: Ways to the host that are no operations where the tensor is there already.
WAYS = ("tolist", "numpy", "cpu", "__array__")


class Syncs(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts looks at device tensors while it is active, by the line of the file that caused them."""

    def __init__(self, source: SourceFile, on_device: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.source = source
        self.found: dict[str, str] = {}  #: file:line -> what was called there
        self.held: dict[int, Any] = {}  # kept alive, so that no address is used for another tensor
        self.mark(on_device)

    def mark(self, tensors: Iterable[Tensor]) -> None:
        for t in tensors:
            storage = t.untyped_storage()
            self.held[storage._cdata] = storage

    def marked(self, t: Tensor) -> bool:
        return t.untyped_storage()._cdata in self.held

    def look(self, name: str) -> None:
        where = self.source.called_from(sys._getframe(2))
        if where:
            self.found.setdefault(where, name)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inputs = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        name = func.overloadpacket.__name__
        device = any(map(self.marked, inputs))
        if device and (name in LOOKS or (name.startswith("index") and _masked(inputs[1:], self.marked))):
            self.look(_spoken(name))
        result = func(*args, **(kwargs or {}))
        if device:
            self.mark(t for t in tree_leaves(result) if isinstance(t, Tensor))
        return result

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Inside, every look is noted."""
        ways: dict[str, Any] = {way: self._noted(way) for way in WAYS}
        with self, mock.patch.multiple(Tensor, **ways):
            yield

    def _noted(self, way: str) -> Callable[..., Any]:
        original = getattr(Tensor, way)

        def look(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            if self.marked(tensor):
                self.look(f".{way}()")
            return original(tensor, *args, **kwargs)

        return look


def _masked(indices: list[Tensor], marked: Callable[[Tensor], bool]) -> bool:
    return any(t.dtype == torch.bool and marked(t) for t in indices)


def _spoken(operation: str) -> str:
    if operation == "_local_scalar_dense":
        return ".item() (or float(), bool(), an `if` on a tensor)"
    return "a mask as an index" if operation.startswith("index") else f"{operation.strip('_').rstrip('2')}()"
