"""Class prototypes: the mean of unit vectors per class, in one product, without a loop over classes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from emi_bench.losses.precision import full_precision


@full_precision
def class_means(z: Tensor, owner: Tensor, k: int) -> Tensor:
    """Mean of the rows z (n,d) that belong to each of k classes; owner (n,) holds 0..k-1 -> (k,d), differentiable.

    A class without rows gets a zero row. The mean is a product with a (k,n) averaging matrix: unlike a scatter-add it
    gives the same bits on a GPU every time.

    >>> class_means(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]]), torch.tensor([0, 2, 0]), 3)
    tensor([[0.5000, 1.0000],
            [0.0000, 0.0000],
            [0.0000, 1.0000]])
    """
    member = (torch.arange(k, device=owner.device)[:, None] == owner).to(z.dtype)
    return (member / member.sum(1, keepdim=True).clamp_(min=1)) @ z


@full_precision
def prototypes(u: Tensor, owner: Tensor, k: int, *, renorm: bool = True) -> Tensor:
    """Prototypes (k,d) of unit rows u (n,d): `p_c = n(mean_{j: owner_j = c} u_j)` (EMI, equation of p_i).

    The printed minus sign is dropped: with it RMI would repel a class from its own prototype. Without `renorm` the
    means stay as they are, shorter than one.

    >>> prototypes(torch.tensor([[1.0, 0.0], [0.6, 0.8]]), torch.tensor([0, 0]), 1)
    tensor([[0.8944, 0.4472]])
    """
    means = class_means(u, owner, k)
    return F.normalize(means, dim=1) if renorm else means
