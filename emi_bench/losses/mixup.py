"""Cross-entropy of mixed images (Zhang et al., mixup, ICLR 2018)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from emi_bench.losses.precision import full_precision


@full_precision
def mixup_cross_entropy(logits: Tensor, a: Tensor, b: Tensor, lam: Tensor) -> Tensor:
    """Logits (n,C), classes a and b (n,), share lam (n,) of b -> 0-d: `mean((1 - lam) CE(., a) + lam CE(., b))`.

    With lam = 0 it is the plain cross-entropy of a.

    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 0.0]])
    >>> mixup_cross_entropy(logits, torch.tensor([0, 1]), torch.tensor([1, 0]), torch.tensor([0.5, 0.0]))
    tensor(0.9100)
    """
    log_p = F.log_softmax(logits, 1).gather(1, torch.stack([a, b], 1))
    return -torch.stack([1 - lam, lam], 1).to(log_p.dtype).mul(log_p).sum(1).mean()
