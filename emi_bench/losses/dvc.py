"""DVC's three loss terms and the quantity behind its retrieval (Gu et al., CVPR 2022)."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from emi_bench.losses.precision import full_precision

#: Lower bound of a batch-mean probability inside the logarithm: the spacing of float64 at one.
_SMALLEST = 2.220446049250313e-16


class DualViewTerms(NamedTuple):
    """L = ce + ent + dl"""

    ce: Tensor
    ent: Tensor
    dl: Tensor


@full_precision
def dual_view_terms(logits: Tensor, q: Tensor, labels: Tensor, dl_weight: float) -> DualViewTerms:
    """Cross-entropy of both views, negative entropy of the batch means, distance of the joint prediction to both.

    logits (2n,C): the n rows z of the images, then the n rows z' of their views; q (n,C); labels (n,).
    With P, P', Q the softmax of z, z', q by row and p, p', qb their means over the batch:
        ce  = ( CE(z,y) + CE(z',y) ) / 2
        ent = ( sum_c p_c ln p_c + sum_c p'_c ln p'_c + sum_c qb_c ln qb_c ) / 3
        dl  = dl_weight * (1/(2nC)) * sum_ic ( |Q_ic - P_ic| + |Q_ic - P'_ic| )
    over all C classes, seen or not.

    >>> log3 = torch.tensor(3.0).log()
    >>> logits, q = torch.stack([log3, log3 * 0, log3 * 0, log3 * 0]).view(2, 2), torch.stack([log3 * 0, log3])[None]
    >>> ce, ent, dl = dual_view_terms(logits, q, torch.tensor([0]), 2.0)
    >>> round(ce.item(), 6), round(ent.item(), 6), round(dl.item(), 6)
    (0.490415, -0.605939, 0.75)
    """
    n, c = q.shape
    log_p = torch.cat([logits, q]).log_softmax(1)
    ce = F.nll_loss(log_p[: 2 * n], labels.repeat(2))
    p = log_p.exp().view(3, n, c)
    mean = p.mean(1).clamp(min=_SMALLEST)
    ent = (mean * mean.log()).sum() / 3
    dl = F.l1_loss(p[:2], p[2].expand(2, n, c)) * dl_weight
    return DualViewTerms(ce, ent, dl)


@full_precision
def gradient_length(logits: Tensor, labels: Tensor, feature_length: Tensor) -> Tensor:
    """L1 norm of each sample's cross-entropy gradient with respect to the last layer's weights, (n,).

    logits (n,C), labels (n,), feature_length (n,) = sum_d |f_d|. The gradient is the outer product of softmax - onehot
    and f, so its norm is (sum_c |p_c - [c = y]|) * feature_length, where the first factor is 2 (1 - p_y).

    >>> gradient_length(torch.zeros(1, 10), torch.tensor([3]), torch.ones(1))
    tensor([1.8000])
    """
    own = logits.softmax(1).gather(1, labels[:, None]).squeeze(1)
    return 2 * (1 - own) * feature_length
