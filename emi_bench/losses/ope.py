"""Online prototype equilibrium (Wei et al., OnPro, ICCV 2023)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from emi_bench.losses.precision import NEVER, full_precision


@full_precision
def ope(p: Tensor, p_view: Tensor, tau: float) -> Tensor:
    """Contrast K prototypes p (K,d) with those of the other view, p_view (K,d) -> 0-d; the rows are taken as they are.

    NT-Xent over the 2K vectors v: `-(1/2K) sum_i log( exp(v_i.v_i'/tau) / sum_{j != i} exp(v_i.v_j/tau) )`, v_i' the
    same class in the other view. No prototype, or one class: 0.

    >>> ope(torch.eye(2), torch.eye(2), tau=0.5)  # -log(e^2 / (e^2 + 2))
    tensor(0.2395)
    """
    k = len(p)
    if k == 0:
        return p.new_zeros(())
    v = torch.cat([p, p_view])
    logits = (v @ v.T / tau).fill_diagonal_(NEVER)
    partner = torch.arange(2 * k, device=p.device).roll(k)
    return F.cross_entropy(logits, partner)
