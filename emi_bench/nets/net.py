"""What a method trains: an encoder and a classifier on its features."""

from __future__ import annotations

from torch import Tensor, nn

from emi_bench.nets.encoder import Encoder


class Net(nn.Module):
    """An encoder and its linear classifier over all C classes, optionally with a projection head.

    The encoder is called `slow`, the paper's name for it (EMI puts a fast net beside it), in every method, so that
    weights can be exchanged between methods. `proj` maps features to the space of a contrastive loss.
    Any module with `features`, `logits` and a `forward` that joins them may stand in for this one in a test.
    """

    def __init__(self, encoder: Encoder, n_classes: int, *, proj: nn.Module | None = None) -> None:
        super().__init__()
        self.slow = encoder
        self.linear = nn.Linear(encoder.out_dim, n_classes)
        if proj is not None:
            self.proj = proj

    def features(self, x: Tensor) -> Tensor:
        """(n,3,H,W) -> (n,D)"""
        feature: Tensor = self.slow(x)
        return feature

    def logits(self, features: Tensor) -> Tensor:
        """(n,D) -> (n,C)"""
        out: Tensor = self.linear(features)
        return out

    def forward(self, x: Tensor) -> Tensor:
        """(n,3,H,W) -> (n,C)"""
        return self.logits(self.features(x))
