"""RandAugment (Cubuk et al. 2020) by torchvision's operations, with the choices taken from a method's own draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from emi_bench.data.views.layout import like
from emi_bench.draws import Draws

BINS = 31
Operation: TypeAlias = Callable[[Tensor, float], Tensor]


def equalize(images: Tensor) -> Tensor:
    """torchvision's histogram equalisation of uint8 images (n,c,H,W), bit for bit; it loops over images and channels
    and looks at each on the host, which would be half of the operations of a whole step.
    """
    values = images.flatten(2).long()
    count = torch.zeros(*values.shape[:2], 256, dtype=torch.int64, device=images.device)
    count.scatter_add_(2, values, torch.ones_like(values))
    brightest = count.gather(2, values.amax(2, keepdim=True))
    step = (values.shape[2] - brightest) // 255
    table = ((count.cumsum(2) - count + step // 2) // step.clamp_min(1)).clamp_(0, 255)
    out = torch.where(step > 0, table.gather(2, values), values)
    return out.to(torch.uint8).view(images.shape)


def operations(side: int) -> list[tuple[Operation, float, bool]]:
    """torchvision's fourteen in its order, of uint8 images: what is done, by how much at most, and whether the amount
    has a sign. Posterising counts bits that are lost, solarising the distance of its threshold from 255.
    """
    from torchvision.transforms import functional as tv  # here: other runs do not pay for the import

    def affine(images: Tensor, shift: tuple[float, float], shear: tuple[float, float], **more: Any) -> Tensor:
        angles = [math.degrees(math.atan(s)) for s in shear]
        out: Tensor = tv.affine(images, angle=0.0, translate=[int(s) for s in shift], scale=1.0, shear=angles, **more)
        return out

    far = 150.0 / 331.0 * side
    return [
        (lambda x, m: x, 0.0, False),
        (lambda x, m: affine(x, (0, 0), (m, 0), center=[0, 0]), 0.3, True),
        (lambda x, m: affine(x, (0, 0), (0, m), center=[0, 0]), 0.3, True),
        (lambda x, m: affine(x, (m, 0), (0, 0)), far, True),
        (lambda x, m: affine(x, (0, m), (0, 0)), far, True),
        (lambda x, m: tv.rotate(x, m), 30.0, True),
        (lambda x, m: tv.adjust_brightness(x, 1 + m), 0.9, True),
        (lambda x, m: tv.adjust_saturation(x, 1 + m), 0.9, True),
        (lambda x, m: tv.adjust_contrast(x, 1 + m), 0.9, True),
        (lambda x, m: tv.adjust_sharpness(x, 1 + m), 0.9, True),
        (lambda x, m: tv.posterize(x, 8 - round(m)), 4.0, False),
        (lambda x, m: tv.solarize(x, 255 - m), 255.0, False),
        (lambda x, m: tv.autocontrast(x), 0.0, False),
        (lambda x, m: equalize(x), 0.0, False),
    ]


def randaugment_view(images: Tensor, draws: Draws, *, n_ops: int, strength: int, per_image: bool = False) -> Tensor:
    """`n_ops` of 14 operations at a strength of 0..30: **the same for all images of the call**, as torchvision's on a
    batch and so the modern papers' is; or `per_image`, a call for each operation that some image has drawn.

    For images in 0-1; they pass through 8 bits. Draws, for each of the `n_ops`: `view.randaugment.op`,
    `view.randaugment.negative` (of no meaning to operations without a sign), (1,) each or (n,).
    """
    out, space = (images * 255.999).to(torch.uint8), operations(images.shape[-1])
    drawn = len(images) if per_image else 1
    for _ in range(n_ops):
        which = draws.integers("view.randaugment.op", len(space), drawn)
        negative = draws.bernoulli("view.randaugment.negative", 0.5, drawn)
        kinds = np.stack([which.numpy(), negative.numpy()], 1)
        for kind in np.unique(kinds, axis=0):
            apply, most, signed = space[kind[0]]
            amount = torch.linspace(0.0, most, BINS)[strength].item() * (-1 if signed and kind[1] else 1)
            if not per_image:
                out = apply(out, amount)
            else:
                rows = torch.from_numpy(np.flatnonzero((kinds == kind).all(1))).to(images.device, non_blocking=True)
                out[rows] = apply(out[rows], amount)
    return like(out.to(images.dtype) / 255, images)
