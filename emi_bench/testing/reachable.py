"""Everything that can be reached from an object: to find what a method keeps, and what its checkpoint forgets."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator, Mapping
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel
from torch import Tensor, nn

PLAIN = (int, float, complex, str, bytes, type(None))
LEAVES = (*PLAIN, Tensor, np.ndarray)
MANY = (list, tuple, set, frozenset, deque)
#: Not looked into: their state is in the checkpoint by itself, or they have none.
CLOSED = (torch.optim.Optimizer, np.random.Generator, BaseModel, ModuleType, type, torch.dtype, torch.device)


def reachable(root: Any, path: str = "self") -> Iterator[tuple[str, Any]]:
    """Every tensor, array and plain value below an object, each with the path of attributes that leads there."""
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [(path, root)]
    while waiting:
        where, value = waiting.pop()
        if isinstance(value, LEAVES):
            yield where, value
        elif id(value) not in seen and not isinstance(value, CLOSED):
            seen.add(id(value))
            waiting += reversed(list(_below(where, value)))


def _below(where: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((f"{where}[{key!r}]", item) for key, item in list(value.items()))
    elif isinstance(value, MANY):
        yield from ((f"{where}[{i}]", item) for i, item in enumerate(value))
    elif isinstance(value, functools.partial):
        yield from ((where, part) for part in (value.args, value.keywords))
    elif isinstance(value, MethodType):
        yield where, value.__self__
    elif isinstance(value, (staticmethod, classmethod)):
        yield where, value.__func__
    elif isinstance(value, FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        closed = {name: cell.cell_contents for name, cell in cells if cell != CellType()}  # not those still empty
        yield from ((f"{where}<{name}>", item) for name, item in (closed | _defaults(value) | vars(value)).items())
    else:
        slots = (name for base in type(value).__mro__ for name in vars(base).get("__slots__", ()))
        attributes = {name: getattr(value, name) for name in slots if hasattr(value, name)}
        attributes |= getattr(value, "__dict__", {})
        if isinstance(value, nn.Module):
            attributes |= attributes.pop("_parameters") | attributes.pop("_buffers") | attributes.pop("_modules")
        # A module has a dozen tables of hooks, nearly always empty.
        yield from ((f"{where}.{name}", item) for name, item in attributes.items() if type(item) is not dict or item)


def _defaults(function: FunctionType) -> dict[str, Any]:
    """By parameter; `inspect.signature` would give them too, in thirty times the time."""
    values, code = function.__defaults__ or (), function.__code__
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    return dict(zip(names, values, strict=True)) | (function.__kwdefaults__ or {})


def differences(one: Any, other: Any) -> list[str]:
    """Paths at which two objects of one kind hold different values."""
    a, b = dict(reachable(one)), dict(reachable(other))
    return [path for path in a | b if path not in a or path not in b or not same(a[path], b[path])]


def same(a: Any, b: Any) -> bool:
    """Whether two values are bit for bit equal, containers of them included."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and _bits(a) == _bits(b)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and bool(a == b)


def _bits(x: Tensor) -> bytes:
    return x.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def images_within(root: Any, path: str, known: Mapping[bytes, int], pixels: int) -> dict[int, str]:
    """Which known images (bytes of one -> its number) are held below an object, each with the first path to it."""
    found: dict[int, str] = {}
    for where, value in reachable(root, path):
        if isinstance(value, (*PLAIN, nn.Parameter)):
            continue
        tensor = value if isinstance(value, Tensor) else torch.from_numpy(value) if value.dtype.kind in "uif" else None
        if tensor is None or tensor.numel() == 0 or tensor.numel() % pixels:
            continue
        data, length = _bits(tensor), pixels * tensor.element_size()
        for start in range(0, len(data), length):
            number = known.get(data[start : start + length])
            if number is not None:
                found.setdefault(number, where)
    return found
