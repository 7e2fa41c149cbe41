"""Gradients of several small batches at one point of parameter space."""

from __future__ import annotations

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
