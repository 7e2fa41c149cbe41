"""Gradients of a network as vectors: the one at hand, and back; of several small batches at one point."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap


def chunk_gradients(net: nn.Module, x: Tensor, y: Tensor, *, vectorised: bool | None = None) -> Tensor:
    """The gradient of the mean cross-entropy of each chunk, flattened over all parameters: (n,P).

    x (n,q,3,H,W), y (n,q). Chunks share no statistics only in eval mode, which is the caller's business; `.grad` is not
    touched. With q = 1 these are per-sample gradients. Runs in full precision: gradients are here to be compared, and
    BN's vectorised form does not take mixed types.

    All chunks go through one vectorised pass, except on a CPU with q > 1: there the weight gradient becomes a grouped
    convolution that takes 2.4 times as long as one backward per chunk. `vectorised` overrules the choice.
    """
    if vectorised is None:
        vectorised = x.device.type != "cpu" or y.shape[1] == 1
    with torch.autocast(x.device.type, enabled=False):
        return _in_one_pass(net, x, y) if vectorised else _one_by_one(net, x, y)


def _in_one_pass(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    parameters = {name: p.detach() for name, p in net.named_parameters()}
    buffers = dict(net.named_buffers())

    def loss(at: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(net, (at, buffers), (x,)), y)

    parts = vmap(grad(loss), (None, 0, 0))(parameters, x, y)
    return torch.cat([part.flatten(1) for part in parts.values()], 1)


def _one_by_one(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    parameters = list(net.parameters())
    rows = parameters[0].new_empty(len(x), sum(p.numel() for p in parameters))
    for row, images, labels in zip(rows, x, y, strict=True):
        loss = F.cross_entropy(net(images), labels)
        gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
        torch.cat([g.reshape(-1) for g in gradients], out=row)
    return rows


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
