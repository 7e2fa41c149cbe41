"""The network one step ahead: what MIR and DVC look at before they decide what to replay."""

from __future__ import annotations

import torch
from torch import Tensor, nn


@torch.no_grad()
def virtual_parameters(net: nn.Module, lr: float) -> dict[str, Tensor]:
    """theta - lr * grad for every parameter that has a gradient, with a copy of every buffer.

    For `torch.func.functional_call(net, virtual_parameters(net, lr), x)`: the network itself stays as it is, and the
    statistics that a train-mode forward moves are those of the copy.
    The plain SGD formula, whatever the optimiser; `.grad` is left as it is.

    >>> net = nn.Linear(1, 1, bias=False)
    >>> net.weight.data.fill_(2.0), setattr(net.weight, "grad", torch.tensor([[5.0]]))
    (tensor([[2.]]), None)
    >>> virtual_parameters(net, 0.1), net.weight.item()
    ({'weight': tensor([[1.5000]])}, 2.0)
    """
    ahead = {name: p.detach() for name, p in net.named_parameters()}
    gradients = {name: p.grad for name, p in net.named_parameters() if p.grad is not None}
    if gradients:
        moved = torch._foreach_add([ahead[name] for name in gradients], list(gradients.values()), alpha=-lr)
        ahead |= dict(zip(gradients, moved, strict=True))
    return ahead | copied(dict(net.named_buffers()))


def copied(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copies in one operation per dtype: a network has dozens of small buffers, and a GPU would launch each clone."""
    copies: dict[str, Tensor] = {}
    for dtype in {t.dtype for t in tensors.values()}:
        group = {name: t for name, t in tensors.items() if t.dtype == dtype}
        flat = torch.cat([t.reshape(-1) for t in group.values()])
        parts = torch.split(flat, [t.numel() for t in group.values()])
        copies |= {name: part.view(t.shape) for (name, t), part in zip(group.items(), parts, strict=True)}
    return copies
