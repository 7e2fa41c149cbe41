"""Diversity mutual information, DMI (EMI, Eq. of S_i, A_i and L_dmi)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce
from operator import add
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from emi_bench.losses.precision import NEVER, full_precision

Reduction: TypeAlias = Literal["log_sum", "sum_log"]
Scale: TypeAlias = Literal["exp", "cos"]


class Diversity(NamedTuple):
    """What DMI found in a batch of N samples."""

    loss: Tensor
    members: Tensor  #: (N,N) bool, row i is the diversified set S_i
    n_other: Tensor  #: 0-d, how many members are of another class than their anchor
    log_mu: Tensor  #: the threshold on the scale of cos / tau (for `exp` the log of the paper's mu), 0-d or (N,1)


@full_precision
def dmi(
    z: Tensor,
    z_view: Tensor,
    labels: Tensor,
    *,
    alpha: float,
    tau: float,
    reduction: Reduction = "log_sum",
    denominator: Literal["all", "no_pair"] = "all",
    threshold: Scale = "exp",
    pairs: Literal["off_diagonal", "with_self", "per_class"] = "off_diagonal",
    empty_anchor: Literal["zero", "drop"] = "zero",
) -> Diversity:
    """Attract same-class and very similar other-class samples: unit rows z, z_view (N,d), labels (N,) -> loss and S.

    With `a = z z^T / tau`, `b = z z'^T / tau`, `c = b^T`, all in logs:

        S_i     = { j != i : y_j = y_i  or  a_ij > log mu }
        log A_i = log sum_{k in S_i} exp(a_ik + b_ik + c_ik) - 3 log sum_j (e^a_ij + e^b_ij + e^c_ij)
        loss    = -(1/N) sum_{i: S_i not empty} log A_i / |S_i|

    `reduction="sum_log"` takes the sum of the logs, `denominator="no_pair"` leaves j = i out of the denominator,
    `empty_anchor="drop"` averages over the anchors with a non-empty S_i. mu is that of all intra-class pairs i != j of
    the batch; `pairs="with_self"` counts i = j too, `pairs="per_class"` gives an anchor the mu of its own class. No
    gradient goes through S.

    >>> z = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    >>> z_view = torch.tensor([[0.8, 0.6], [0.6, 0.8], [-0.6, 0.8]])
    >>> found = dmi(z, z_view, torch.tensor([0, 0, 1]), alpha=0.1, tau=1.0)
    >>> found.loss, found.members.int().tolist()
    (tensor(5.3152), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    """
    n = len(z)
    scaled = z / tau
    a = scaled @ z.T
    b = scaled @ z_view.T
    same = labels[:, None] == labels
    intra = same.clone().fill_diagonal_(False)
    with torch.no_grad():
        n_intra = intra.sum()
        if pairs == "per_class":
            log_mu = class_thresholds(a, intra, same, alpha, threshold)
        elif pairs == "with_self":
            log_mu = similarity_threshold(a, same, same.sum(), alpha, threshold)
        else:
            log_mu = similarity_threshold(a, intra, n_intra, alpha, threshold)
        members = ((a > log_mu) | intra).fill_diagonal_(False)
        size = members.sum(1)

    blocks = torch.cat([a, b, b.T], 1)
    if denominator == "no_pair":
        blocks = blocks.masked_fill(torch.eye(n, dtype=torch.bool, device=z.device).repeat(1, 3), NEVER)
    log_a = log_ratio(a + b + b.T, members, blocks.logsumexp(1), reduction)
    anchors = n if empty_anchor == "zero" else (size > 0).sum().clamp(min=1)
    return Diversity(-sum_per_member(size, log_a) / anchors, members, size.sum() - n_intra, log_mu)


def other_share(found: Iterable[Diversity]) -> Tensor:
    """Other-class members among all members of all S_i -> 0-d in 0-1; 0 if there are none."""
    counts = [(d.n_other, d.members.sum()) for d in found]
    others, members = (reduce(add, column) for column in zip(*counts, strict=True))
    share: Tensor = others / members.clamp(min=1)
    return share


def similarity_threshold(a: Tensor, intra: Tensor, n_intra: Tensor, alpha: float, scale: Scale = "exp") -> Tensor:
    """mu = s_max - alpha (s_max - s_mean) over the n_intra intra-class pairs, on the scale of a = cos / tau -> 0-d.

    `scale="exp"`: s = exp(a) as in the paper, returned as log mu; `"cos"`: s is the cosine itself.
    Without an intra-class pair it is +inf: nobody passes.

    >>> a = torch.tensor([[1.0, 0.6, 0.2], [0.6, 1.0, 0.2], [0.2, 0.2, 1.0]])
    >>> similarity_threshold(a, ~torch.eye(3, dtype=torch.bool), torch.tensor(6), 0.5, "cos")
    tensor(0.4667)
    """
    if a.numel() == 0:
        return a.new_full((), math.inf)
    inside = a.masked_fill(~intra, -math.inf)
    top = inside.amax()
    log_mu: Tensor
    if scale == "exp":
        log_mu = top + torch.log((1 - alpha) + alpha * ((inside - top).exp().sum() / n_intra))
    else:
        log_mu = top - alpha * (top - (a * intra).sum() / n_intra)
    return log_mu.nan_to_num_(nan=math.inf, posinf=math.inf)  # 0/0: no pair


def class_thresholds(a: Tensor, intra: Tensor, same: Tensor, alpha: float, scale: Scale = "exp") -> Tensor:
    """The threshold of each anchor from the intra-class pairs of its class alone -> (N,1); +inf without a pair.

    >>> a = torch.tensor([[1.0, 0.6, 0.2], [0.6, 1.0, 0.2], [0.2, 0.2, 1.0]])
    >>> same = torch.tensor([[1, 1, 0], [1, 1, 0], [0, 0, 1]]).bool()
    >>> class_thresholds(a, same & ~torch.eye(3, dtype=torch.bool), same, 0.5, "cos")
    tensor([[0.6000],
            [0.6000],
            [   inf]])
    """
    if a.numel() == 0:
        return a.new_full((0, 1), math.inf)
    highest = a.masked_fill(~intra, -math.inf).amax(1)
    top = highest.expand_as(a).masked_fill(~same, -math.inf).amax(1, keepdim=True)
    n_pairs = intra.sum(1, keepdim=True)  # of an anchor: as many as every other of its class has
    s = (a - top).exp() if scale == "exp" else a
    # Not a product with masks: a class without a pair has infinities, which must not reach the others.
    per_row = s.masked_fill(~intra, 0).sum(1)
    mean = per_row.expand_as(a).masked_fill(~same, 0).sum(1, keepdim=True) / (n_pairs * (n_pairs + 1))
    log_mu = top + torch.log((1 - alpha) + alpha * mean) if scale == "exp" else top - alpha * (top - mean)
    return log_mu.masked_fill_(n_pairs == 0, math.inf)


def log_ratio(t: Tensor, members: Tensor, log_d: Tensor, reduction: Reduction) -> Tensor:
    """log A_i (DMI) or log B_c (RMI): t, members (r,n), log_d (r,) -> (r,); meaningless but finite for an empty row."""
    if reduction == "log_sum":
        return t.masked_fill(~members, NEVER).logsumexp(1) - 3 * log_d
    return torch.where(members, t - 3 * log_d[:, None], 0.0).sum(1)


def sum_per_member(size: Tensor, log_ratios: Tensor) -> Tensor:
    """`sum_i log_ratios_i / size_i` over the rows with size_i > 0; both (r,) -> 0-d."""
    weight = size.to(log_ratios.dtype).reciprocal_().masked_fill_(size == 0, 0)
    return weight @ log_ratios
