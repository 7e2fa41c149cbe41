"""Angles between gradients, flattened over all parameters (A-GEM, GSS)."""

from __future__ import annotations

import torch
from torch import Tensor

from emi_bench.losses.precision import full_precision


@full_precision
def project_conflict(g: Tensor, g_ref: Tensor) -> Tensor:
    """The gradient g (P,) without its component against g_ref (P,), if it has one (A-GEM, eq. 11).

    g - (<g, g_ref> / <g_ref, g_ref>) g_ref  where <g, g_ref> < 0, and g itself, bit for bit, elsewhere.
    Both cases are one expression, so that nobody waits for the device; g_ref = 0 never conflicts.

    >>> project_conflict(torch.tensor([1.0, 2.0]), torch.tensor([1.0, -1.0]))
    tensor([1.5000, 1.5000])
    >>> project_conflict(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0]))
    tensor([1., 2.])
    """
    dot = g @ g_ref
    return torch.where(dot < 0, g - (dot / (g_ref @ g_ref)) * g_ref, g)


@full_precision
def max_cosine(subsets: Tensor, g: Tensor) -> Tensor:
    """GSS score of gradients g (B,P) against those of memory subsets (n,P): max_i cos(subset_i, g), (B,).

    The product of the norms is clamped at 1e-8 from below: a zero gradient scores 0.

    >>> max_cosine(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[3.0, 4.0], [0.0, 0.0], [-1.0, -1.0]]))
    tensor([ 0.8000,  0.0000, -0.7071])
    """
    norms = g.norm(dim=1, keepdim=True) * subsets.norm(dim=1)
    cosine: Tensor = g @ subsets.T / norms.clamp_min(1e-8)
    return cosine.amax(1)
