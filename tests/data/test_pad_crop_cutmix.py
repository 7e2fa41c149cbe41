"""The original GDumb recipe's augmentations, with known parameters."""

from __future__ import annotations

import pytest
import torch

from emi_bench.data.views.cutmix import cut_box, cutmix
from emi_bench.data.views.pad_crop import pad_crop_flip
from emi_bench.draws import Draws
from emi_bench.testing import ScriptedDraws


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_crop_out_of_a_black_frame(dtype: torch.dtype) -> None:
    images = torch.arange(1, 1 + 3 * 3 * 6 * 5).reshape(3, 3, 6, 5).to(dtype)
    script = {"view.pad.y": [[4, 0, 7]], "view.pad.x": [[4, 8, 2]], "view.flip": [[False, False, True]]}
    out = pad_crop_flip(images, ScriptedDraws(script))
    assert out.dtype == dtype
    assert torch.equal(out[0], images[0])
    assert torch.equal(out[1, :, 4:, :1], images[1, :, :2, 4:])
    assert out[1, :, :4].eq(0).all()
    assert out[1, :, :, 1:].eq(0).all()
    padded = torch.nn.functional.pad(images[2], (4,) * 4)
    assert torch.equal(out[2], padded[:, 7:13, 2:7].flip(2))


def test_crop_keeps_the_memory_format() -> None:
    images = torch.rand(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    assert pad_crop_flip(images, Draws(0)).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("lam", "centre", "box"),
    [
        (0.75, (16, 16), (8, 24, 8, 24)),
        (0.75, (0, 31), (0, 8, 23, 32)),
        (1.0, (5, 5), (5, 5, 5, 5)),
        (0.0, (16, 16), (0, 32, 0, 32)),
        (0.9, (16, 16), (11, 21, 11, 21)),
    ],
)
def test_box_is_clipped_to_the_image(lam: float, centre: tuple[int, int], box: tuple[int, ...]) -> None:
    assert cut_box(lam, *centre, 32, 32) == box


def test_mixed_share_is_the_area_that_was_left() -> None:
    images = torch.rand(3, 3, 8, 8)
    script = {"cutmix.lam": [0.75], "cutmix.centre": [0, 4], "cutmix.order": [[2, 0, 1]]}
    mixed, order, lam = cutmix(images, ScriptedDraws(script))
    assert lam == 1 - (2 * 4) / 64
    assert torch.equal(mixed[:, :, :2, 2:6], images[order][:, :, :2, 2:6])
    outside = torch.ones(8, 8, dtype=torch.bool)
    outside[:2, 2:6] = False
    assert torch.equal(mixed[:, :, outside], images[:, :, outside])
