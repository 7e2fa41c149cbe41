"""The usual CIFAR augmentation: a crop out of the image with a black frame, and a flip."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from emi_bench.data.views.layout import like
from emi_bench.draws import Draws


def pad_crop_flip(images: Tensor, draws: Draws, *, padding: int = 4, together: bool = False) -> Tensor:
    """Images (n,3,H,W) of any dtype: zero-pad, crop back to H x W at a random place, flip with probability 1/2.

    Draws: `view.pad.y`, `view.pad.x` (integers 0..2*padding), `view.flip` (coins), one each an image; one place for
    all images where they are cropped `together`.
    Works on pixels before normalisation, so that the frame is black.
    """
    n, c, h, w = images.shape
    places = 1 if together else n
    top = draws.integers("view.pad.y", 2 * padding + 1, places).expand(n)
    left = draws.integers("view.pad.x", 2 * padding + 1, places).expand(n)
    flip = draws.bernoulli("view.flip", 0.5, n)
    rows = top[:, None] + torch.arange(h)
    columns = left[:, None] + torch.where(flip[:, None], torch.arange(w - 1, -1, -1), torch.arange(w))
    both = torch.cat([rows, columns], 1).to(images.device, non_blocking=True)
    rows, columns = both[:, :h], both[:, h:]
    padded = F.pad(images, (padding,) * 4)
    sample = torch.arange(n, device=images.device)[:, None, None, None]
    channel = torch.arange(c, device=images.device)[None, :, None, None]
    return like(padded[sample, channel, rows[:, None, :, None], columns[:, None, None, :]], images)
