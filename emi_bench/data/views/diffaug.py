"""SSD's matching augmentation: DiffAug "color_crop" (Zhao et al., arXiv 2006.10738), differentiable."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from emi_bench.data.views.layout import columns, like, per_image
from emi_bench.draws import Draws


class DiffAug(NamedTuple):
    """The draws of one call, each (n,): three uniforms on [0,1), and integer shifts on -s..s."""

    brightness: Tensor
    saturation: Tensor
    contrast: Tensor
    rows: Tensor
    columns: Tensor


def largest_shift(side: int) -> int:
    """An eighth of the side, rounded: 4, 8, 11 for 32, 64, 84."""
    return int(side / 8 + 0.5)


def draw_diffaug(draws: Draws, n: int, side: int) -> DiffAug:
    """Independent parameters for n images."""
    s = largest_shift(side)
    colour = [draws.uniform(f"view.{what}", n) for what in ("brightness", "saturation", "contrast")]
    drawn = (draws.integers(f"view.shift.{axis}", 2 * s + 1, n).numpy() - s for axis in ("rows", "columns"))
    return DiffAug(*colour, *(torch.from_numpy(shifts) for shifts in drawn))


def shift(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """out[r,c] = in[r + rows_i, c + columns_i] for image i, zeros outside; integer host shifts (n,), differentiable.

    >>> shift(torch.arange(4.0).view(1, 1, 2, 2), torch.tensor([1]), torch.tensor([0])).tolist()
    [[[[2.0, 3.0], [0.0, 0.0]]]]
    """
    n, _, height, width = images.shape
    dr, dc = rows.numpy()[:, None], columns.numpy()[:, None]
    room = max(abs(dr).max(initial=0), abs(dc).max(initial=0))
    padded = F.pad(images, (room, room, room, room)).permute(0, 2, 3, 1)
    at = np.concatenate([np.arange(n)[:, None], np.arange(height) + dr + room, np.arange(width) + dc + room], 1)
    where = torch.from_numpy(at).to(images.device, non_blocking=True)
    r, c = where[:, 1 : 1 + height, None], where[:, None, 1 + height :]
    return padded[where[:, :1, None], r, c].permute(0, 3, 1, 2)


def apply_diffaug(images: Tensor, p: DiffAug) -> Tensor:
    """Brightness, saturation, contrast, shift, in this order, without a clamp; gradients reach the images.

    x + (u - 1/2); m + 2u (x - m) with m the mean of a pixel's channels; m + (u + 1/2)(x - m) with m the image's mean.
    """
    brightness, saturation, contrast = (
        per_image(u, images) for u in columns(images, (p.brightness, p.saturation, p.contrast))
    )
    x = images + (brightness - 0.5)
    x = torch.lerp(x.mean(1, keepdim=True), x, 2 * saturation)
    x = torch.lerp(x.mean((1, 2, 3), keepdim=True), x, contrast + 0.5)
    return like(shift(x, p.rows, p.columns), images)


def diffaug(images: Tensor, draws: Draws) -> Tensor:
    """The view: purposes view.brightness, view.saturation, view.contrast, view.shift.rows, view.shift.columns."""
    return apply_diffaug(images, draw_diffaug(draws, len(images), images.shape[-1]))
