"""Random resized crops and horizontal flips of a whole batch in one grid sample.

Boxes are drawn and turned into source coordinates on the host, in numpy, for all images at once; the device sees one
copy of the coordinates and one `grid_sample`. torchvision's `resized_crop` takes one box for the whole batch; with one
box the results differ by its rounding (1.8e-7 at most), which is enough to change DVC's stored matrices.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from emi_bench.data.views.layout import like
from emi_bench.draws import Draws

Array: TypeAlias = npt.NDArray[np.float64]
Mapping: TypeAlias = Literal["image", "box", "corners"]

RATIO = (3 / 4, 4 / 3)
TRIALS = 10


class Boxes(NamedTuple):
    """One box an image, in pixels, on the host: each (n,), or (1,) for one box that all images share."""

    left: Tensor  #: may be fractional, like `top`
    top: Tensor
    width: Tensor
    height: Tensor

    def mirrored(self, flip: Tensor, side: int) -> Boxes:
        """The boxes that cut the same content out of an image before it was flipped."""
        left = np.where(flip.numpy(), side - self.width.numpy() - self.left.numpy(), self.left.numpy())
        return self._replace(left=torch.from_numpy(left))


def _boxes(left: Array, top: Array, width: Array, height: Array) -> Boxes:
    return Boxes(*(torch.from_numpy(part) for part in (left, top, width, height)))


def whole(n: int, side: int) -> Boxes:
    """The whole image, n times."""
    return _boxes(np.zeros(n), np.zeros(n), np.full(n, float(side)), np.full(n, float(side)))


# --- drawing -----------------------------------------------------------------------------------------------------


def _uniform(draws: Draws, what: str, *shape: int, low: float = 0.0, high: float = 1.0) -> Array:
    drawn: Array = draws.uniform(f"view.crop.{what}", *shape, low=low, high=high).numpy()
    return drawn


def _sides(draws: Draws, shape: tuple[int, ...], side: int, scale: tuple[float, float]) -> tuple[Array, Array]:
    """Unrounded widths and heights of trial boxes: area U(scale), log aspect ratio U(log 3/4, log 4/3)."""
    area = _uniform(draws, "area", *shape, low=scale[0], high=scale[1]) * side * side
    ratio = np.exp(_uniform(draws, "log_ratio", *shape, low=math.log(RATIO[0]), high=math.log(RATIO[1])))
    return np.sqrt(area * ratio), np.sqrt(area / ratio)


def _place_first(draws: Draws, width: Array, height: Array, most: int, side: int) -> Boxes:
    """The first of the trials (n,10) with both sides in 1..most, at an integer position uniform over all that fit.

    Where no trial will do, the whole image.
    """
    valid = (width > 0) & (width <= most) & (height > 0) & (height <= most)
    rows, first, found = np.arange(len(valid)), valid.argmax(1), valid.any(1)
    width, height = (np.where(found, s[rows, first], float(side)) for s in (width, height))
    left = np.floor(_uniform(draws, "x", len(rows)) * (side - width + 1))
    top = np.floor(_uniform(draws, "y", len(rows)) * (side - height + 1))
    return _boxes(left, top, width, height)


def torchvision_boxes(draws: Draws, n: int, side: int, scale: tuple[float, float] = (0.2, 1.0)) -> Boxes:
    """torchvision's RandomResizedCrop: rounded sides, 10 trials an image, the first that fits.

    Where none fits, torchvision takes the largest central crop within the ratios; of a square image that is all of it.
    """
    width, height = _sides(draws, (n, TRIALS), side, scale)
    return _place_first(draws, width.round(), height.round(), side, side)


def kornia_boxes(draws: Draws, n: int, side: int, scale: tuple[float, float] = (0.2, 1.0)) -> Boxes:
    """kornia 0.4.1's RandomResizedCrop: truncated sides, 10 trials, the first with both **strictly** below the image's.

    Where there is none, the whole image. The mean area is 0.518 of the image's (at 32x32), not 0.6.
    """
    width, height = _sides(draws, (n, TRIALS), side, scale)
    return _place_first(draws, np.floor(width), np.floor(height), side - 1, side)


def ocm_boxes(draws: Draws, n: int, side: int, scale: tuple[float, float] = (0.3, 1.0)) -> Boxes:
    """OCM's crop: rounded sides; of 10n trials in one row the first n that fit; the shortfall is the whole image.

    The centre is off the image's by k/side in units in which the image is 2 wide, k an integer, uniform over
    -(side-w)..(side-w): steps of half a pixel.
    """
    width, height = (s.round() for s in _sides(draws, (n * TRIALS,), side, scale))
    valid = (width > 0) & (width <= side) & (height > 0) & (height <= side)
    short = np.full(n, float(side))
    width, height = (np.concatenate([s[valid], short])[:n] for s in (width, height))
    left = np.floor(_uniform(draws, "x", n) * (2 * (side - width) + 1)) / 2
    top = np.floor(_uniform(draws, "y", n) * (2 * (side - height) + 1)) / 2
    return _boxes(left, top, width, height)


# --- cutting -----------------------------------------------------------------------------------------------------


def _sources(start: Tensor, length: Tensor, side: int, mapping: Mapping) -> Array:
    """For each output pixel of one axis the source coordinate, pixel centres at integers: (n,side)."""
    out, x0, w = np.arange(side), start.numpy()[:, None], length.numpy()[:, None]
    if mapping == "corners":
        corners: Array = x0 + out * (w - 1) / max(side - 1, 1)
        return corners
    centres: Array = x0 + (out + 0.5) * w / side - 0.5
    return np.clip(centres, x0, x0 + w - 1) if mapping == "box" else np.clip(centres, 0, side - 1)


def crop_flip(images: Tensor, boxes: Boxes, flip: Tensor | None = None, *, mapping: Mapping) -> Tensor:
    """Cut out the boxes, resize them bilinearly to the image's size, then mirror where `flip` (n,) or (1,) is True.

    `mapping` says where an output pixel i comes from in a box at x0, w wide, of an image W wide:
    "image": x0 + (i+1/2) w/W - 1/2, reading beyond the box but not the image (one affine grid sample, OCM);
    "box": the same, clamped to the box (torchvision: crop, then resize; antialiasing has no effect when enlarging);
    "corners": x0 + i (w-1)/(W-1) (kornia 0.4.1).
    Boxes and flips are on the host.
    """
    n, _, height, width = images.shape
    xs = _sources(boxes.left, boxes.width, width, mapping)
    ys = _sources(boxes.top, boxes.height, height, mapping)
    if flip is not None:
        xs = np.where(flip.numpy()[:, None], xs[:, ::-1], xs)
    axes = np.concatenate([(2 * xs + 1) / width - 1, (2 * ys + 1) / height - 1], 1)
    on_device = torch.from_numpy(axes).to(images.device, images.dtype, non_blocking=True)
    shape = (len(xs), height, width)
    columns, rows = on_device[:, None, :width].expand(shape), on_device[:, width:, None].expand(shape)
    grid = torch.stack([columns, rows], 3).expand(n, -1, -1, -1)
    # coordinates never leave the image, so the padding mode matters for rounding errors only
    out = F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)
    return like(out, images)
