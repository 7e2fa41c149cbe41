"""Views keep the memory format, and bring their host parameters to the images in as few copies as they can."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def memory_format_of(images: Tensor) -> torch.memory_format:
    """Channels last if the images are, else contiguous."""
    channels_last = images.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if channels_last else torch.contiguous_format


def like(out: Tensor, images: Tensor) -> Tensor:
    """`out` in the memory format of `images`."""
    return out.contiguous(memory_format=memory_format_of(images))


def rows_of(which: Tensor, images: Tensor) -> Tensor:
    """Indices of the True rows of a host mask (n,), on the images' device, without waiting for it."""
    return torch.from_numpy(np.flatnonzero(which.numpy())).to(images.device, non_blocking=True)


def replace_rows(images: Tensor, rows: Tensor, changed: Tensor) -> Tensor:
    """The images with others in some rows; `index_copy` alone would lose the memory format."""
    return images.clone().index_copy_(0, rows, changed)


def per_image(factor: Tensor, images: Tensor) -> Tensor:
    """Factors (n,) or (1,) as (n,1,1,1), where and as the images are."""
    return factor.to(images.device, images.dtype, non_blocking=True).view(-1, 1, 1, 1)


def columns(images: Tensor, parameters: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Several host parameters (n,) brought to the images' device and dtype in one copy."""
    stacked = torch.from_numpy(np.stack([p.numpy() for p in parameters]))
    return stacked.to(images.device, images.dtype, non_blocking=True).unbind(0)
