"""The 16-fold rotation set of OCM: every class becomes sixteen."""

from __future__ import annotations

import torch
from torch import Tensor

from emi_bench.data.views.layout import like

COPIES = 16


def rot16(images: Tensor) -> Tensor:
    """Sixteen arrangements of square images: (n,c,H,H) -> (16n,c,H,H), any dtype; rows 0..n-1 are the images.

    Inner set: as it is; the left half turned by 180 degrees in place; both halves turned; the right half turned. The
    four are then rotated as a whole by 0, 180, 90 and 270 degrees: copy m = 4 r + q of image b is row m n + b.

    >>> rot16(torch.arange(16).view(1, 1, 4, 4))[1, 0].tolist()
    [[13, 12, 2, 3], [9, 8, 6, 7], [5, 4, 10, 11], [1, 0, 14, 15]]
    """
    half = images.shape[3] // 2
    left, right = images[..., :half], images[..., half:]
    turned_left, turned_right = left.flip(2, 3), right.flip(2, 3)
    parts = [(left, right), (turned_left, right), (turned_left, turned_right), (left, turned_right)]
    inner = torch.cat([torch.cat(pair, 3) for pair in parts])
    return like(torch.cat([inner, inner.flip(2, 3), inner.rot90(1, (2, 3)), inner.rot90(3, (2, 3))]), images)


def rot16_labels(y: Tensor, n_classes: int) -> Tensor:
    """Pseudo-labels of `rot16`: y + m L for copy m, with L = n_classes or more: (n,) -> (16n,).

    >>> rot16_labels(torch.tensor([3, 8]), 10)[:6]
    tensor([ 3,  8, 13, 18, 23, 28])
    """
    copies = torch.arange(COPIES, device=y.device, dtype=y.dtype) * n_classes
    return (copies[:, None] + y).flatten()
