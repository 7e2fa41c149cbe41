"""Representativeness mutual information, RMI (EMI, Eq. of B_i and L_rmi)."""

from __future__ import annotations

import torch
from torch import Tensor

from emi_bench.losses.dmi import Reduction, log_ratio, sum_per_member
from emi_bench.losses.precision import full_precision


@full_precision
def rmi(
    p: Tensor,
    p_view: Tensor,
    classes: Tensor,
    u: Tensor,
    u_view: Tensor,
    labels: Tensor,
    *,
    tau: float,
    reduction: Reduction = "log_sum",
) -> Tensor:
    """Pull samples to their class prototype: p, p_view (K,d) of classes (K,); u, u_view (N,d), labels (N,) -> 0-d.

    With `A = p u^T / tau`, `B = p u'^T / tau`, `C = p' u^T / tau`, j over all N samples:

        log B_c = log sum_{j: y_j = c} exp(A_cj + B_cj + C_cj) - 3 log sum_j (e^A_cj + e^B_cj + e^C_cj)
        loss    = -(1/K) sum_c log B_c / #{j: y_j = c}

    K counts the prototypes whose class occurs among the labels; none: 0. `reduction="sum_log"`: the sum of the logs.

    >>> p, p_view = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.6, 0.8]])
    >>> u = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> rmi(p, p_view, torch.tensor([5]), u, u, torch.tensor([5, 2]), tau=1.0)
    tensor(4.7229)
    """
    if len(p) == 0 or len(u) == 0:
        return u.new_zeros(())
    scaled = p / tau
    a = scaled @ u.T
    b = scaled @ u_view.T
    c = (p_view / tau) @ u.T
    members = classes[:, None] == labels
    log_d = torch.cat([a, b, c], 1).logsumexp(1)
    log_b = log_ratio(a + b + c, members, log_d, reduction)

    count = members.sum(1)
    return -sum_per_member(count, log_b) / (count > 0).sum().clamp(min=1)
