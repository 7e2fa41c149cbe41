"""Losses compute in full precision, whatever the networks use."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")

#: A logit that takes no part: its softmax is exactly 0, and it is finite, so that neither 0 times it nor a row of
#: nothing else leaves a NaN.
NEVER = -1e30


def _full(value: Any) -> Any:
    half = isinstance(value, Tensor) and value.dtype in (torch.float16, torch.bfloat16)
    return value.float() if half else value


def full_precision(loss: Callable[P, R]) -> Callable[P, R]:
    """Run a loss outside autocast, with half-precision tensors raised to float32; float64 stays.

    >>> @full_precision
    ... def total(x: Tensor) -> Tensor:
    ...     return x.sum()
    >>> total(torch.ones(3, dtype=torch.bfloat16)).dtype
    torch.float32
    """

    @wraps(loss)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        device = next((a.device.type for a in args if isinstance(a, Tensor)), "cpu")
        with torch.autocast(device, enabled=False):
            return loss(*map(_full, args), **{k: _full(v) for k, v in kwargs.items()})

    return wrapped
