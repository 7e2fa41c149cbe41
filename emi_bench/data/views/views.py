"""The stochastic views of the methods: `(images, draws) -> images`, floats (n,3,H,H), format and dtype kept.

All parameters are drawn on the host, under these purposes, in the order in which a view's docstring names them:
view.crop.area, view.crop.log_ratio (10 trials an image), view.crop.x, view.crop.y (uniforms that are scaled to the
positions that fit), view.flip, view.gray, view.jitter (coins), view.brightness, view.contrast, view.saturation,
view.hue (factors), view.order (of the four colour operations).
"""

from __future__ import annotations

import torch
from torch import Tensor

from emi_bench.data.views.colour import (
    GREY_TORCHVISION,
    KORNIA,
    TORCHVISION,
    ColourOp,
    draw_factors,
    grey_where,
    jitter,
)
from emi_bench.data.views.crop import crop_flip, kornia_boxes, ocm_boxes, torchvision_boxes
from emi_bench.data.views.layout import replace_rows, rows_of
from emi_bench.data.views.ordered_jitter import ordered_jitter
from emi_bench.data.views.pad_crop import pad_crop_flip
from emi_bench.draws import Draws


def ocm_view(images: Tensor, draws: Draws) -> Tensor:
    """OCM, OnPro, EMI: flip 0.5, grey 0.25 (of the normalised channels), resized crop of area U(0.3, 1). No jitter.

    Per image. Flip and crop are one grid sample; grey commutes with it, being linear in each pixel's channels.
    Draws: flip, gray, crop.area, crop.log_ratio, crop.x, crop.y.
    """
    n, side = len(images), images.shape[-1]
    flip = draws.bernoulli("view.flip", 0.5, n)
    gray = draws.bernoulli("view.gray", 0.25, n)
    boxes = ocm_boxes(draws, n, side).mirrored(flip, side)
    return grey_where(crop_flip(images, boxes, flip, mapping="image"), gray)


def scr_view(images: Tensor, draws: Draws) -> Tensor:
    """SCR, SSD (kornia 0.4.1): crop of area U(0.2, 1), flip 0.5, jitter 0.8, grey 0.2.

    Per image, but one order of the colour operations a call. For images in 0-1.
    Draws: crop.area, crop.log_ratio, crop.x, crop.y, flip, jitter, brightness, contrast, saturation, hue, order, gray.
    """
    return _kornia_view(images, draws, KORNIA)


def full_view(images: Tensor, draws: Draws) -> Tensor:
    """`full` of the modern papers (kornia 0.6): `scr_view` with torchvision's meaning of the colour operations."""
    return _kornia_view(images, draws, TORCHVISION)


def _kornia_view(images: Tensor, draws: Draws, family: tuple[ColourOp, ...]) -> Tensor:
    n, side = len(images), images.shape[-1]
    boxes = kornia_boxes(draws, n, side)
    flip = draws.bernoulli("view.flip", 0.5, n)
    jittered = draws.bernoulli("view.jitter", 0.8, n)
    factors = draw_factors(draws, n, jittered)
    order = draws.permutation("view.order", 4).tolist()
    gray = draws.bernoulli("view.gray", 0.2, n)

    out = crop_flip(images, boxes, flip, mapping="corners")
    rows = rows_of(jittered, images)
    out = replace_rows(out, rows, jitter(out[rows], family, factors, order))
    return grey_where(out, gray)


def partial_view(images: Tensor, draws: Draws, *, per_image: bool = False) -> Tensor:
    """`partial` of the modern papers: a frame of 4 pixels (an eighth of smaller images), cropped back at **one** place
    for all images of the call, or `per_image`; flip 0.5 an image. The frame is black for images in 0-1.

    Draws: view.pad.y, view.pad.x (one integer each, or n), flip.
    """
    return pad_crop_flip(images, draws, padding=min(4, images.shape[-1] // 8), together=not per_image)


def crop_view(images: Tensor, draws: Draws) -> Tensor:
    """The first link of CCL-DC's chain (kornia): crop of area U(0.6, 1), flip 0.5, per image.

    Draws: crop.area, crop.log_ratio, crop.x, crop.y, flip.
    """
    boxes = kornia_boxes(draws, len(images), images.shape[-1], (0.6, 1.0))
    return crop_flip(images, boxes, draws.bernoulli("view.flip", 0.5, len(images)), mapping="corners")


def grey_crop_view(images: Tensor, draws: Draws, *, grey_p: float, area: float) -> Tensor:
    """GSA (grey 0.2, area 0.6), MOSE (0.25, 0.3): grey, then a resized crop of area U(area, 1). `ocm_view` unflipped.

    Draws: gray, crop.area, crop.log_ratio, crop.x, crop.y.
    """
    n, side = len(images), images.shape[-1]
    gray = draws.bernoulli("view.gray", grey_p, n)
    return grey_where(crop_flip(images, ocm_boxes(draws, n, side, (area, 1.0)), mapping="image"), gray)


def dvc_view(images: Tensor, draws: Draws) -> Tensor:
    """DVC (torchvision on the batch): crop of area U(0.2, 1), flip 0.5, jitter always, grey 0.2.

    **One** set of parameters for all images of the call. For images in 0-1.
    Draws, each of shape (1,): crop.area, crop.log_ratio, crop.x, crop.y, flip, order, brightness, contrast,
    saturation, hue, gray.
    """
    boxes = torchvision_boxes(draws, 1, images.shape[-1])
    flip = draws.bernoulli("view.flip", 0.5, 1)
    order = draws.permutation("view.order", 4).tolist()
    factors = draw_factors(draws, 1)
    gray = draws.bernoulli("view.gray", 0.2, 1)

    out = crop_flip(images, boxes, flip, mapping="box")
    return grey_where(jitter(out, TORCHVISION, factors, order), gray, GREY_TORCHVISION)


def pcr_view(images: Tensor, draws: Draws) -> Tensor:
    """PCR (torchvision, image by image): crop of area U(0.2, 1), flip 0.5, jitter 0.8, grey 0.2.

    Per image, the order of the colour operations too. For images in 0-1. PCR works on 8-bit images and rounds after
    every operation: a whole view differs by 1.2/255 on average, in single pixels by up to 28/255 (mostly the hue).
    Draws: crop.area, crop.log_ratio, crop.x, crop.y, flip, jitter, order (uniforms (n,4), sorted), brightness,
    contrast, saturation, hue, gray.
    """
    n, side = len(images), images.shape[-1]
    boxes = torchvision_boxes(draws, n, side)
    flip = draws.bernoulli("view.flip", 0.5, n)
    jittered = draws.bernoulli("view.jitter", 0.8, n)
    order = torch.from_numpy(draws.uniform("view.order", n, 4).numpy().argsort(1)[jittered.numpy()])
    factors = draw_factors(draws, n, jittered)
    gray = draws.bernoulli("view.gray", 0.2, n)

    out = crop_flip(images, boxes, flip, mapping="box")
    rows = rows_of(jittered, images)
    out = replace_rows(out, rows, ordered_jitter(out[rows], factors, order))
    return grey_where(out, gray, GREY_TORCHVISION)
