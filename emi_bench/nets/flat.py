"""All gradients of a network as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn


def _order(p: Tensor) -> list[int]:
    """The dimensions of p from the outermost to the innermost in storage (channels_last: 0, 2, 3, 1)."""
    return sorted(range(p.dim()), key=p.stride, reverse=True)


def flat_gradient(parameters: Iterable[nn.Parameter]) -> Tensor:
    """The gradients of all parameters that have one, (P,), each in the order in which its parameter is stored.

    Autograd lays a gradient out like its parameter, so one concatenation is the only copy.
    """
    return torch.cat([p.grad.permute(_order(p)).reshape(-1) for p in parameters if p.grad is not None])


def set_flat_gradient(parameters: Iterable[nn.Parameter], flat: Tensor) -> None:
    """The inverse of `flat_gradient`: every gradient becomes a view into `flat`, laid out like its parameter."""
    held = [p for p in parameters if p.grad is not None]
    for p, part in zip(held, torch.split(flat, [p.numel() for p in held]), strict=True):
        order = _order(p)
        back = sorted(range(p.dim()), key=order.__getitem__)
        p.grad = part.view([p.shape[d] for d in order]).permute(back)
