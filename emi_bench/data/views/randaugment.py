"""torchvision's RandAugment on a batch of floats, with its choices taken from a method's own draws."""

from __future__ import annotations

import torch
from torch import Tensor
from torchvision.transforms import RandAugment

from emi_bench.data.views.layout import like
from emi_bench.draws import Draws


def randaugment_view(images: Tensor, draws: Draws, *, n_ops: int, strength: int) -> Tensor:
    """`n_ops` of 14 operations at a strength of 31 (Cubuk et al. 2020), **the same for all images of the call**.

    For images in 0-1; they pass through 8 bits. torchvision draws operations and signs from torch's generator, which is
    seeded for the call and put back. Draws: `view.randaugment` (a seed).
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draws.seed("view.randaugment"))
        out: Tensor = RandAugment(n_ops, strength)((images * 255.999).to(torch.uint8))
    return like(out.to(images.dtype) / 255, images)
