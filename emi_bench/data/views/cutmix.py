"""CutMix (Yun et al., ICCV 2019): a box of every image is taken from another one of the batch."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from emi_bench.draws import Draws


class Box(NamedTuple):
    """Rows top..bottom and columns left..right, the ends not included."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def area(self) -> int:
        return (self.bottom - self.top) * (self.right - self.left)


def cut_box(lam: float, row: int, column: int, height: int, width: int) -> Box:
    """A box of int(W sqrt(1 - lam)) x int(H sqrt(1 - lam)) around a centre, clipped to the image.

    >>> cut_box(0.75, 0, 16, 32, 32)
    Box(top=0, bottom=8, left=8, right=24)
    """
    cut_h, cut_w = int(height * (1 - lam) ** 0.5), int(width * (1 - lam) ** 0.5)
    return Box(
        max(row - cut_h // 2, 0),
        min(row + cut_h // 2, height),
        max(column - cut_w // 2, 0),
        min(column + cut_w // 2, width),
    )


def cutmix(images: Tensor, draws: Draws) -> tuple[Tensor, Tensor, float]:
    """Mixed images (n,3,H,W), the permutation (n,) that the boxes come from, and lam, the share that is an image's own.

    One box a batch. Draws: `cutmix.lam` (Beta(1,1)), `cutmix.centre` (row, then column), `cutmix.order`.
    The loss is lam * CE(y) + (1 - lam) * CE(y[order]).
    """
    height, width = images.shape[2:]
    lam = float(draws.beta("cutmix.lam", 1.0, 1.0))
    row = int(draws.integers("cutmix.centre", height))
    column = int(draws.integers("cutmix.centre", width))
    order = draws.permutation("cutmix.order", len(images)).to(images.device, non_blocking=True)
    box = cut_box(lam, row, column, height, width)
    mixed = images.clone()
    mixed[:, :, box.top : box.bottom, box.left : box.right] = images[
        order, :, box.top : box.bottom, box.left : box.right
    ]
    return mixed, order, 1 - box.area / (height * width)
