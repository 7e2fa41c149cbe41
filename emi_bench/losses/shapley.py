"""Shapley values of the samples of a K-nearest-neighbour classifier (Jia et al. 2019), as ASER uses them."""

from __future__ import annotations

import torch
from torch import Tensor

from emi_bench.losses.precision import full_precision


@full_precision
def knn_shapley(
    candidates: Tensor, candidate_labels: Tensor, points: Tensor, point_labels: Tensor, *, k: int
) -> Tensor:
    """How much each candidate helps a K-NN classifier on each evaluation point: SV (E,N).

    Features (N,d), labels (N,); features (E,d), labels (E,). With the candidates sorted by distance from a point and
    I_j = 1 where the j-th has its label, from the farthest to the nearest:

        s_N = I_N / N,   s_j = s_{j+1} + (I_j - I_{j+1}) / k * min(k, j) / j

    Exact if N >= k. For N < k the exact s_N is I_N / k; the form above is the source's and is kept.
    Distances are one (E,N) matrix, no pairs are formed; equally near candidates keep their order.

    >>> candidates, labels = torch.tensor([[0.0], [1.0], [4.0]]), torch.tensor([0, 0, 1])
    >>> knn_shapley(candidates, labels, torch.tensor([[0.4], [3.0]]), torch.tensor([0, 1]), k=1)
    tensor([[0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 1.0000]])
    """
    n = len(candidates)
    distances = torch.cdist(points, candidates, compute_mode="donot_use_mm_for_euclid_dist")
    order = torch.argsort(distances, dim=1, stable=True)
    match = (candidate_labels[order] == point_labels[:, None]).to(distances.dtype)
    rank = torch.arange(1, n + 1, device=distances.device, dtype=distances.dtype)
    factor = rank.clamp(max=k) / (k * rank)
    factor[-1:] = 1 / n if n else 1.0
    nearer_minus_farther = torch.cat([match[:, :-1] - match[:, 1:], match[:, -1:]], 1)
    values = (factor * nearer_minus_farther).flip(1).cumsum(1).flip(1)
    return torch.zeros_like(distances).scatter_(1, order, values)
