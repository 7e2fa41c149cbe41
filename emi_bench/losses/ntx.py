"""The supervised InfoNCE losses of OCM (Guo et al., ICML 2022), which OnPro and EMI take over.

All three share one kernel on a similarity matrix S of n rows. With `E_ij = exp((S_ij - max_k S_ik) / tau)`,
`q_ij = E_ij / (sum_j E_ij + eps)` and weights w that pick the pairs of equal labels,

    loss = - sum_ij w_ij log(q_ij + eps),   dloss/dS_ij = (q_ij sum_k w_ik r_ik - w_ij r_ij) / tau,   r = q / (q + eps)

The eps inside the log caps every entry at -log(1e-8) = 18.42 and takes the gradient from very distant positives, which
a log-softmax would not do. The gradient is written by hand because S has up to 2048 x 2048 entries: value and gradient
come out of the same few passes, and one matrix is kept for the backward pass instead of one per operation.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from emi_bench.losses.precision import full_precision

EPS = 1e-8


@full_precision
def similarity(p: Tensor, f: Tensor, start: int, coefficient: float = 1.0) -> Tensor:
    """Similarities of projections p (n,P) with a slice of the features f (n,D) and with each other -> (n,n).

    `S = c (p f[:, start:start+P]^T + p p^T)`, one product because both share p. For unit rows S is in [-2c, 2c].

    >>> p, f = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[0.0, 0.6, 0.8], [0.0, 1.0, 0.0]])
    >>> similarity(p, f, 1, 0.5)
    tensor([[0.8000, 0.5000],
            [0.4000, 0.5000]])
    """
    keys = f[:, start : start + p.shape[1]] + p
    return (p if coefficient == 1 else coefficient * p) @ keys.T


@full_precision
def cosines(p: Tensor, q: Tensor) -> Tensor:
    """Inner products of unit rows p (n,P) and q (m,P) -> (n,m).

    >>> cosines(torch.tensor([[0.6, 0.8]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    tensor([[0.6000, 0.8000]])
    """
    return p @ q.T


@full_precision
def ntx_n(s: Tensor, labels: Tensor, tau: float) -> Tensor:
    """NTX_n, for stream data: s (n,n), labels (n,), rows i and i + n/2 two views of one image -> 0-d.

    The self similarity is left out of the denominator. `(2/n) sum_ij W_ij L_ij + (1/n) sum_i L_{i,i+-n/2}` with
    `L = -log(q + eps)` and `W_ij = [l_i = l_j] / (#j: l_j = l_i)`, diagonal included: twice the label-supervised term
    plus once the own-view term.

    >>> ntx_n(torch.tensor([[1.0, 0.5], [0.5, 1.0]]), torch.tensor([0, 0]), tau=1.0)
    tensor(18.4207)
    """
    return _ntx(s, labels, tau, scale=2.0 / len(s), drop_self=True, own_view=1.0 / len(s))


@full_precision
def ntx_uni(s: Tensor, labels: Tensor, tau: float) -> Tensor:
    """NTX_uni, for replay data: s (n,n), labels (n,) -> 0-d. `(1/n) sum_ij W_ij L_ij`, self similarity kept.

    >>> ntx_uni(torch.tensor([[1.0, 0.5], [0.5, 1.0]]), torch.tensor([0, 0]), tau=1.0)
    tensor(0.7241)
    """
    return _ntx(s, labels, tau, scale=1.0 / len(s))


@full_precision
def ntx_pre(s: Tensor, labels: Tensor, tau: float) -> Tensor:
    """NTX_pre, current against past model: s (n,n) not symmetric, labels (n,), n >= 2 -> 0-d.

    As `ntx_uni`, divided by 2 floor(n/2) as in the source.

    >>> ntx_pre(torch.zeros(4, 4), torch.tensor([0, 1, 0, 2]), tau=0.07)  # log 4
    tensor(1.3863)
    """
    return _ntx(s, labels, tau, scale=1.0 / (2 * (len(s) // 2)))


def _ntx(
    s: Tensor, labels: Tensor, tau: float, *, scale: float, drop_self: bool = False, own_view: float = 0.0
) -> Tensor:
    return cast(Tensor, _Ntx.apply(s, labels, tau, scale, drop_self, own_view))


class _Ntx(torch.autograd.Function):
    """Value and gradient of the kernel above in one go; in-place wherever a matrix is not needed again."""

    @staticmethod
    def forward(
        ctx: Any, s: Tensor, labels: Tensor, tau: float, scale: float, drop_self: bool, own_view: float
    ) -> Tensor:
        q = (s - s.amax(1, keepdim=True)).div_(tau).exp_()
        if drop_self:
            q.fill_diagonal_(0)
        q.div_(q.sum(1, keepdim=True).add_(EPS))

        w = (labels[:, None] == labels).to(s.dtype)
        w.mul_(scale / (w.sum(1, keepdim=True) + EPS))
        if own_view:
            half = len(s) // 2
            w.diagonal(half).add_(own_view)
            w.diagonal(-half).add_(own_view)

        t = q + EPS
        loss = t.log().mul_(w).sum().neg_()
        if ctx.needs_input_grad[0]:
            w.mul_(q).div_(t)
            ctx.save_for_backward(q.mul_(w.sum(1, keepdim=True)).sub_(w).div_(tau))
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (ds,) = ctx.saved_tensors
        return grad * ds, None, None, None, None, None
