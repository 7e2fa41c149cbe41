"""The supervised contrastive loss of SCR, SSD and MOSE (Khosla et al., arXiv 2004.11362, as SCR uses it)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from emi_bench.losses.precision import NEVER, full_precision


@full_precision
def supcon(z: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Each embedding tells its own class from all others: cross-entropy against the uniform choice of a positive.

    z (N,d) unit rows, labels (N,) on the same device; all views of all images are rows, in any order, and every label
    occurs at least twice (as it does with two views of each image). With S = z z^T / temperature and P(i) the other
    rows with the label of row i:
        L = -(1/N) sum_i (1/|P(i)|) sum_{p in P(i)} [ S_ip - log sum_{a != i} exp(S_ia) ]
    No temperature / base-temperature factor.

    >>> import torch
    >>> z = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> supcon(z, torch.tensor([0, 1, 0, 1]), 1.0)  # log(2 + 1/e)
    tensor(0.8620)
    """
    scores = ((z / temperature) @ z.T).fill_diagonal_(NEVER)
    positive = (labels[:, None] == labels).fill_diagonal_(False).to(scores.dtype)
    return F.cross_entropy(scores, positive / positive.sum(1, keepdim=True))


@full_precision
def supcon_of_experts(z: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """`supcon` of several embeddings of the same rows at once, z (E,N,d), summed over these.

    A label may occur once: the mean is over the rows that have a positive, and 0 if none has.

    >>> import torch
    >>> z = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]])
    >>> supcon_of_experts(z, torch.tensor([0, 0, 1]), 1.0)  # log(1 + 1/e)
    tensor(0.3133)
    """
    itself = torch.eye(len(labels), dtype=torch.bool, device=z.device)
    scores = ((z / temperature) @ z.mT).masked_fill(itself, NEVER)
    positive = ((labels[:, None] == labels) & ~itself).to(scores.dtype)
    count = positive.sum(1, keepdim=True)
    anchors = count.clamp_max(1).sum().clamp_min(1)
    share = positive / (count.clamp_min(1) * anchors)  # a row without a positive has no share, so no term
    return -(share * scores.log_softmax(2)).sum()
