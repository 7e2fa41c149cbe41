"""MOSE's reverse self-distillation: the deep expert learns from the shallow ones (Yan et al., CVPR 2024)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from emi_bench.losses.precision import full_precision


@full_precision
def reverse_distillation(deep: Tensor, shallow: Tensor) -> Tensor:
    """sum_i || normalise(deep) - normalise(shallow_i) ||_F of features (n,D) and (E,n,D), the shallow ones detached.

    The Frobenius norm of the whole batch, not a mean: it grows with the square root of the rows.

    >>> deep, shallow = torch.tensor([[1.0, 0.0]] * 2), torch.tensor([[[0.0, 1.0]] * 2])
    >>> reverse_distillation(deep, shallow)
    tensor(2.)
    """
    apart = F.normalize(deep, dim=1) - F.normalize(shallow.detach(), dim=2)
    norms: Tensor = torch.linalg.vector_norm(apart, dim=(1, 2))
    return norms.sum()
