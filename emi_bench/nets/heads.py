"""What methods put on top of the encoder: projection (SCR, SSD), cosine head (PCR, ER-ACE), Q-net (DVC)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from emi_bench.losses.precision import full_precision
from emi_bench.nets.encoder import Encoder
from emi_bench.nets.net import Net


@full_precision
def normalised(v: Tensor) -> Tensor:
    """Rows of v (...,d) scaled to length one, v / max(|v|, 1e-12)."""
    return F.normalize(v, dim=-1, eps=1e-12)


@full_precision
def cosine_scores(features: Tensor, proxies: Tensor, temperature: float, eps: float = 1e-6) -> Tensor:
    """s_ic = < f_i / (|f_i| + eps), W_c / (|W_c| + eps) > / temperature, (n,D) and (C,D) -> (n,C).

    The eps is added to the length, not a lower bound of it.
    """
    f = features / (torch.linalg.vector_norm(features, dim=1, keepdim=True) + eps)
    w = proxies / ((torch.linalg.vector_norm(proxies, dim=1, keepdim=True) + eps) * temperature)
    return F.linear(f, w)


class CosineHead(nn.Linear):
    """One proxy per class; the logits are cosine similarities over a temperature. Initialised as a linear layer.

    >>> CosineHead(160, 10)(torch.ones(2, 160)).shape
    torch.Size([2, 10])
    """

    def __init__(self, n_features: int, n_classes: int, temperature: float = 0.09, eps: float = 1e-6) -> None:
        super().__init__(n_features, n_classes, bias=False)
        self.temperature, self.eps = temperature, eps

    def forward(self, features: Tensor) -> Tensor:
        return cosine_scores(features, self.weight, self.temperature, self.eps)


class CosineNet(Net):
    """An encoder under a cosine head: `features(x)`, and `logits(features)` = cosine scores over the temperature."""

    def __init__(self, encoder: Encoder, n_classes: int, temperature: float = 0.09, eps: float = 1e-6) -> None:
        super().__init__(encoder, n_classes)
        self.linear = CosineHead(encoder.out_dim, n_classes, temperature, eps)


def projection_mlp(n_features: int, out: int = 128) -> nn.Sequential:
    """Linear(D,D) ReLU Linear(D,out), the head of SimCLR and SCR; its output is not yet normalised."""
    return nn.Sequential(nn.Linear(n_features, n_features), nn.ReLU(inplace=True), nn.Linear(n_features, out))


class ContrastiveNet(nn.Module):
    """An encoder and a projection, no classifier: `features(x)` (n,D), `proj(features)` (n,d)."""

    def __init__(self, encoder: Encoder, proj: nn.Module) -> None:
        super().__init__()
        self.slow = encoder
        self.proj = proj

    def features(self, x: Tensor) -> Tensor:
        """(n,3,H,W) -> (n,D)"""
        feature: Tensor = self.slow(x)
        return feature

    def forward(self, x: Tensor) -> Tensor:
        """(n,3,H,W) -> (n,d) unit embeddings"""
        return normalised(self.proj(self.features(x)))


def q_net(n_classes: int, hidden: int = 128) -> nn.Sequential:
    """DVC's joint prediction from two logit vectors: Linear(2C,hidden) ReLU Linear(hidden,C).

    >>> sum(p.numel() for p in q_net(10).parameters())
    3978
    """
    return nn.Sequential(nn.Linear(2 * n_classes, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, n_classes))


class DualViewNet(Net):
    """An encoder, its linear classifier, and the Q-net on two logit vectors: `features`, `logits`, `qnet`."""

    def __init__(self, encoder: Encoder, n_classes: int) -> None:
        super().__init__(encoder, n_classes)
        self.qnet = q_net(n_classes)
