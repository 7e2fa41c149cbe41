"""Colour changes of a batch (n,3,H,W) with one factor an image, (n,), or one for all, (1,).

Two families that share a name and little else: torchvision's jitter blends with black, with the image's mean grey or
with each pixel's grey; kornia 0.4.1's adds, multiplies, and scales the S of HSV. The hue shift is the same in both.

torchvision's own functions (`transforms.v2.functional`) take one factor for the whole batch, so that only DVC's view
could call them. They would change its stored results: brightness and grey are theirs bit for bit, but contrast and
saturation round otherwise (1.2e-7 at most) and hue goes through HSV (1.9e-6), after which DVC's matrix on digits is
another one; and a worker would pay two seconds to import them. The tests hold ours to theirs instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from emi_bench.data.views.layout import columns, like, memory_format_of, per_image, replace_rows, rows_of
from emi_bench.draws import Draws

#: Weights of R, G and B in grey: ITU-R 601 as OCM and kornia write them, and as torchvision rounds them.
GREY = (0.299, 0.587, 0.114)
GREY_TORCHVISION = (0.2989, 0.587, 0.114)

ColourOp: TypeAlias = Callable[[Tensor, Tensor], Tensor]


def grey(images: Tensor, weights: tuple[float, float, float] = GREY) -> Tensor:
    """The weighted sum of the channels, (n,1,H,W)."""
    red, green, blue = images.unbind(1)
    return torch.add(red * weights[0], green, alpha=weights[1]).add_(blue, alpha=weights[2]).unsqueeze(1)


def grey_where(images: Tensor, which: Tensor, weights: tuple[float, float, float] = GREY) -> Tensor:
    """Images with three equal channels where the host mask `which`, (n,) or (1,), is True, the others untouched."""
    if len(which) == 1:
        return like(grey(images, weights).expand_as(images), images) if bool(which) else images
    rows = rows_of(which, images)
    return replace_rows(images, rows, grey(images[rows], weights).expand(-1, 3, -1, -1))


# --- hue, the same for both --------------------------------------------------------------------------------------


def shift_hue(images: Tensor, turns: Tensor) -> Tensor:
    """Turn the hue of HSV by a fraction of the circle; value and saturation stay.

    With v, c the largest channel and the spread of a pixel and h in sixths of the circle, channel n = R, G, B becomes
    v - c clamp(min(k, 4-k), 0, 1), k = (o_n + h) mod 6, o = 5, 3, 1.
    """
    value, top = images.max(1, keepdim=True)
    spread = value - images.amin(1, keepdim=True)
    ahead = (images.roll(-1, 1) - images.roll(-2, 1)).gather(1, top)  # G-B, B-R or R-G
    sixths = torch.add(ahead / spread.clamp_min(torch.finfo(images.dtype).tiny), top, alpha=2)
    offsets = torch.arange(5, 0, -2, dtype=images.dtype, device=images.device).view(1, 3, 1, 1)
    k = torch.remainder(sixths + torch.add(offsets, per_image(turns, images), alpha=6), 6)
    return torch.addcmul(value, spread, torch.minimum(k, 4 - k).clamp_(0, 1), value=-1)


# --- torchvision -------------------------------------------------------------------------------------------------


def blend_brightness(images: Tensor, factor: Tensor) -> Tensor:
    """torchvision's brightness: x f, clamped to 0-1."""
    return (images * per_image(factor, images)).clamp_(0, 1)


def blend_contrast(images: Tensor, factor: Tensor) -> Tensor:
    """torchvision's contrast: m + f (x - m), m the mean grey of the image, clamped to 0-1."""
    mean = grey(images, GREY_TORCHVISION).mean((2, 3), keepdim=True)
    return torch.lerp(mean, images, per_image(factor, images)).clamp_(0, 1)


def blend_saturation(images: Tensor, factor: Tensor) -> Tensor:
    """torchvision's saturation: g + f (x - g), g the grey of the pixel, clamped to 0-1."""
    return torch.lerp(grey(images, GREY_TORCHVISION), images, per_image(factor, images)).clamp_(0, 1)


#: brightness, contrast, saturation, hue: the numbers in an `order` are positions in this tuple.
TORCHVISION: tuple[ColourOp, ...] = (blend_brightness, blend_contrast, blend_saturation, shift_hue)


# --- kornia 0.4.1 ------------------------------------------------------------------------------------------------


def add_brightness(images: Tensor, factor: Tensor) -> Tensor:
    """kornia 0.4.1's brightness: x + (f - 1), clamped to 0-1."""
    return (images + (per_image(factor, images) - 1)).clamp_(0, 1)


def scale_contrast(images: Tensor, factor: Tensor) -> Tensor:
    """kornia 0.4.1's contrast: x f, without a mean, clamped to 0-1."""
    return (images * per_image(factor, images)).clamp_(0, 1)


def scale_saturation(images: Tensor, factor: Tensor) -> Tensor:
    """kornia 0.4.1's saturation: the S of HSV times f, clamped to 0-1.

    With hue and v = max(R,G,B) fixed a channel is v minus something proportional to S = (v - min)/v, so that
    x' = v - (v - x) min(f, 1/S): no conversion is needed.
    """
    value = images.amax(1, keepdim=True)
    spread = value - images.amin(1, keepdim=True)
    ratio = torch.minimum(value / spread.clamp_min(torch.finfo(images.dtype).tiny), per_image(factor, images))
    return torch.addcmul(value, value - images, ratio, value=-1).clamp_min_(0)  # v - v may round to below 0


KORNIA: tuple[ColourOp, ...] = (add_brightness, scale_contrast, scale_saturation, shift_hue)


def draw_factors(draws: Draws, n: int, which: Tensor | None = None) -> list[Tensor]:
    """Brightness, contrast, saturation U(0.6, 1.4) and hue U(-0.1, 0.1): the jitter (.4, .4, .4, .1).

    n of each are drawn; with a host mask `which` (n,) only those of its True rows are returned.
    """
    ranges = {"brightness": (0.6, 1.4), "contrast": (0.6, 1.4), "saturation": (0.6, 1.4), "hue": (-0.1, 0.1)}
    drawn = [draws.uniform(f"view.{what}", n, low=low, high=high) for what, (low, high) in ranges.items()]
    return drawn if which is None else [torch.from_numpy(f.numpy()[which.numpy()]) for f in drawn]


def jitter(images: Tensor, ops: Sequence[ColourOp], factors: Sequence[Tensor], order: Sequence[int]) -> Tensor:
    """The four operations of a family with their factors, in one order for the whole batch."""
    layout = memory_format_of(images)
    factors = columns(images, factors)
    for op in order:
        images = ops[op](images, factors[op])
    return images.contiguous(memory_format=layout)
