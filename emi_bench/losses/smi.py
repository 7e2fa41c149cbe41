"""Separability mutual information, SMI (EMI, Eq. of L_smi)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from emi_bench.losses.precision import full_precision


@full_precision
def smi(p: Tensor, p_view: Tensor, tau: float) -> Tensor:
    """InfoNCE of K prototypes p (K,d) against those of the other view, p_view (K,d), one direction -> 0-d.

    `-(1/K) sum_i ( L_ii - log sum_j exp(L_ij) + log K )` with `L = p p'^T / tau`. At least -log K; no prototype, or one
    class: 0. The constant log K is kept so that values match the paper's equation.

    >>> smi(torch.eye(2), torch.eye(2), tau=1.0)  # log(1 + 1/e) - log 2
    tensor(-0.3799)
    """
    k = len(p)
    if k == 0:
        return p.new_zeros(())
    logits = p @ p_view.T / tau
    return F.cross_entropy(logits, torch.arange(k, device=p.device)) - math.log(k)
