"""torchvision's colour jitter where every image has its own order of the four operations; no loop over images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from emi_bench.data.views.colour import GREY_TORCHVISION, shift_hue
from emi_bench.data.views.layout import like

CONTRAST, SATURATION, HUE = 1, 2, 3


def _schedule(order: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Which operation an image undergoes in each of 3 rounds before its hue shift and 3 after it, -1 for none: (n,6).

    >>> _schedule(np.array([[1, 3, 0, 2], [3, 2, 1, 0]]))
    array([[ 1, -1, -1,  0,  2, -1],
           [-1, -1, -1,  2,  1,  0]])
    """
    at = (order == HUE).argmax(1)[:, None]
    rounds = np.arange(3)
    before = np.where(rounds < at, order[:, :3], -1)
    after = np.where(rounds < 3 - at, np.take_along_axis(order, (at + 1 + rounds).clip(max=3), 1), -1)
    return np.concatenate([before, after], 1)


def _mixing(kind: npt.NDArray[np.int64], factors: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The blends as channel mixing x' = F x + T m, with m the mean colour of the image: F and T, (2,6,n,3,3).

    Brightness is F = f I; saturation F = f I + (1-f) 1 w^T; contrast F = f I with T = (1-f) 1 w^T, w the grey weights.
    """
    f = np.where(kind < 0, 1.0, np.take_along_axis(factors, kind.clip(min=0), 1)).T[:, :, None, None]
    to_grey = (1 - f) * np.broadcast_to(GREY_TORCHVISION, (3, 3))
    kind = kind.T[:, :, None, None]
    return np.stack([f * np.eye(3) + to_grey * (kind == SATURATION), to_grey * (kind == CONTRAST)])


def ordered_jitter(images: Tensor, factors: Sequence[Tensor], order: Tensor) -> Tensor:
    """Brightness, contrast, saturation and hue `factors`, 4 x (n,), image i in its own `order` (n,4); all on the host.

    Blends mix channels linearly, so that one batched product serves whichever of the three an image undergoes in a
    round. The hue shift does not; images are lined up on it, with three rounds before and three after.
    """
    kind = _schedule(order.numpy())
    mixing = torch.from_numpy(_mixing(kind, np.stack([f.numpy() for f in factors], 1)))
    mix, tint = mixing.to(images.device, images.dtype, non_blocking=True)
    x = images.flatten(2)
    with torch.autocast(images.device.type, enabled=False):
        for i in range(6):
            if i == 3:
                x = shift_hue(x.view_as(images), factors[HUE]).flatten(2)
            if (kind[:, i] >= 0).any():
                x = torch.baddbmm(torch.bmm(tint[i], x.mean(2, keepdim=True)), mix[i], x).clamp_(0, 1)
    return like(x.reshape(images.shape), images)
