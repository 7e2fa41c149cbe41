"""Rows of unit length."""

from __future__ import annotations

import torch
from torch import Tensor

from emi_bench.losses.precision import full_precision


@full_precision
def unit(v: Tensor) -> Tensor:
    """Each row (last dimension) divided by its length plus 1e-8, the normalisation of OCM; a zero row stays zero.

    `n(v) = v / (|v|_2 + 1e-8)`

    >>> unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    length: Tensor = torch.linalg.vector_norm(v, dim=-1, keepdim=True)
    return v / (length + 1e-8)
