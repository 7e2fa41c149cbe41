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
    parameters = {name: p.detach() for name, p in net.named_parameters()}
    buffers = dict(net.named_buffers())

    def loss(at: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(net, (at, buffers), (x,)), y)

    gradient = grad(loss)
    if vectorised is None:
        vectorised = x.device.type != "cpu" or y.shape[1] == 1
    with torch.autocast(x.device.type, enabled=False):
        if vectorised:
            parts = vmap(gradient, (None, 0, 0))(parameters, x, y)
            return torch.cat([part.flatten(1) for part in parts.values()], 1)
        rows = [gradient(parameters, *chunk) for chunk in zip(x, y, strict=True)]
        return torch.stack([torch.cat([part.flatten() for part in row.values()]) for row in rows])
