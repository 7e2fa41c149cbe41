"""Adaptive prototypical feedback (Wei et al., OnPro, ICCV 2023): the closer two prototypes, the more their classes mix.

The counts are a host decision: images are picked by them. Only the distances come from the device.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from emi_bench.draws import Draws
from emi_bench.losses.precision import full_precision


@full_precision
def pair_distances(means: Tensor) -> Tensor:
    """Euclidean distances of prototypes, means (K,d) -> (K(K-1)/2,), pairs (0,1), (0,2) ... (1,2) ...; no gradient.

    >>> pair_distances(torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.8, 0.6, 0.0]]))
    tensor([1.4142, 0.6325, 0.8944])
    """
    return F.pdist(means.detach())


def pair_probabilities(distances: Tensor) -> Tensor:
    """`softmax(1/d)` over all pairs, d (m,) on the host -> (m,) float64.

    Prototypes that coincide (d = 0) take everything; equally so if several do.

    >>> pair_probabilities(torch.tensor([2**0.5, 0.4**0.5, 0.8**0.5], dtype=torch.float64))
    tensor([0.2039, 0.4886, 0.3075], dtype=torch.float64)
    """
    return torch.softmax(1 / distances.double().clamp_min(1e-12), 0)


def pair_counts(probabilities: Tensor, n: int, draws: Draws) -> list[int]:
    """How many of n images each pair gets: `round(prob n)`, then one more or one less for random pairs until n is met.

    Any pair may get one more; one less only where there is one. Draws: "apf_adjust", the number of a pair, once an
    adjustment.

    >>> pair_counts(torch.tensor([0.2039, 0.4886, 0.3075]), 16, Draws(0))
    [3, 8, 5]
    >>> sum(pair_counts(torch.full((2016,), 1 / 2016), 7, Draws(0)))
    7
    """
    # A network that has diverged gives nan, of which no integer can be made; its loss ends the run soon enough.
    counts: list[int] = (torch.nan_to_num(probabilities) * n).round().long().tolist()
    while missing := n - sum(counts):
        eligible = len(counts) if missing > 0 else [pair for pair, count in enumerate(counts) if count]
        counts[int(draws.pick("apf_adjust", eligible, 1))] += 1 if missing > 0 else -1
    return counts


def mix(first: Tensor, second: Tensor, lam: Tensor) -> Tensor:
    """`(1 - lam) first + lam second`, images (n,c,H,W), lam (n,) on any device; lam = 0 leaves the first untouched.

    >>> mix(torch.zeros(2, 1, 1, 1), torch.ones(2, 1, 1, 1), torch.tensor([0.0, 0.25])).flatten()
    tensor([0.0000, 0.2500])
    """
    lam = lam.to(first.device, first.dtype, non_blocking=True)
    return torch.lerp(first, second, lam.view(-1, 1, 1, 1))


def mixed_labels(a: Tensor, b: Tensor, lam: Tensor) -> Tensor:
    """`(1 - lam) a + lam b` of class numbers, (n,) each -> (n,) float64: what the contrastive loss compares.

    Kept from the source: half of class 2 and half of class 4 is a positive of class 3. Within one class the number
    stays whole, where rounding would make up a class of its own.

    >>> mixed_labels(torch.tensor([2, 2, 3]), torch.tensor([4, 3, 3]), torch.tensor([0.5, 0.25, 0.1]))
    tensor([3.0000, 2.2500, 3.0000], dtype=torch.float64)
    """
    lam = lam.double()
    return torch.where(a == b, a.double(), (1 - lam) * a + lam * b)


@full_precision
def mixup_cross_entropy(logits: Tensor, a: Tensor, b: Tensor, lam: Tensor) -> Tensor:
    """Logits (n,C), classes a and b (n,), share lam (n,) of b -> 0-d: `mean((1 - lam) CE(., a) + lam CE(., b))`.

    Of mixed images (Zhang et al., mixup, ICLR 2018). With lam = 0 it is the plain cross-entropy of a.

    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 0.0]])
    >>> mixup_cross_entropy(logits, torch.tensor([0, 1]), torch.tensor([1, 0]), torch.tensor([0.5, 0.0]))
    tensor(0.9100)
    """
    log_p = F.log_softmax(logits, 1).gather(1, torch.stack([a, b], 1))
    return -torch.stack([1 - lam, lam], 1).to(log_p.dtype).mul(log_p).sum(1).mean()
