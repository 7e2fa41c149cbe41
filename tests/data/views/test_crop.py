"""Crops and flips: the recorded numbers, torchvision itself, and what must hold for every draw."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torchvision.transforms.v2.functional as tv
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from emi_bench.data.views.crop import Boxes, crop_flip, kornia_boxes, ocm_boxes, torchvision_boxes, whole
from emi_bench.draws import Draws
from emi_bench.testing import ScriptedDraws
from tests.golden_files import golden

OCM = golden("ocm_augment")
IMAGES = torch.tensor(OCM["images"], dtype=torch.float64)


def boxes_of(*rows: tuple[float, float, float, float]) -> Boxes:
    """(left, top, width, height) an image"""
    return Boxes(*torch.tensor(rows, dtype=torch.float64).T)


def affine(images: Tensor, theta: Tensor) -> Tensor:
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="reflection", align_corners=False)


def two_step(images: Tensor, boxes: Boxes, flip: Tensor) -> Tensor:
    """OCM's own form: an affine grid sample for the flip, another one for the crop."""
    n, _, _, side = images.shape
    mirror = torch.zeros(n, 2, 3, dtype=images.dtype)
    mirror[:, 0, 0] = torch.where(flip, -1.0, 1.0)
    mirror[:, 1, 1] = 1
    theta = torch.zeros(n, 2, 3, dtype=images.dtype)
    theta[:, 0, 0], theta[:, 1, 1] = boxes.width / side, boxes.height / side
    theta[:, 0, 2] = (2 * boxes.left + boxes.width) / side - 1
    theta[:, 1, 2] = (2 * boxes.top + boxes.height) / side - 1
    return affine(affine(images, mirror), theta)


def test_ocm_crop_matches_the_recorded_images() -> None:
    w, h, ox, oy = torch.tensor(OCM["crop_whbias"], dtype=torch.float64).T * 8
    cropped = crop_flip(IMAGES, Boxes((8 + ox - w) / 2, (8 + oy - h) / 2, w, h), mapping="image")
    torch.testing.assert_close(cropped, torch.tensor(OCM["cropped"], dtype=torch.float64), atol=1e-6, rtol=0)


def test_ocm_flip_matches_the_recorded_images() -> None:
    flip = torch.tensor(OCM["flip_bernoulli"]) == 0
    flipped = crop_flip(IMAGES, whole(2, 8), flip, mapping="image")
    torch.testing.assert_close(flipped, torch.tensor(OCM["flipped"], dtype=torch.float64), atol=1e-6, rtol=0)


def test_ocm_boxes_match_the_recorded_sampling() -> None:
    n, side = 6, 32
    rng = np.random.RandomState(7)
    area = rng.uniform(0.3, 1.0, n * 10)
    log_ratio = rng.uniform(math.log(3 / 4), math.log(4 / 3), n * 10)
    expected = torch.tensor(OCM["sample_latent_np_seed7_N6_32x32"], dtype=torch.float64) * side
    w, h, ox, oy = expected.T
    script = {
        "view.crop.area": [area],
        "view.crop.log_ratio": [log_ratio],
        "view.crop.x": [(ox + side - w + 0.5) / (2 * (side - w) + 1)],
        "view.crop.y": [(oy + side - h + 0.5) / (2 * (side - h) + 1)],
    }
    boxes = ocm_boxes(ScriptedDraws(script), n, side)
    assert torch.equal(boxes.width, w)
    assert torch.equal(boxes.height, h)
    assert torch.equal(boxes.left, (side + ox - w) / 2)
    assert torch.equal(boxes.top, (side + oy - h) / 2)


@pytest.mark.parametrize("side", [8, 32, 33])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_grid_sample_equals_flip_then_crop(side: int, dtype: torch.dtype) -> None:
    draws = Draws(3)
    images = torch.rand(40, 3, side, side, dtype=dtype, generator=torch.Generator().manual_seed(0))
    boxes, flip = ocm_boxes(draws, 40, side), draws.bernoulli("view.flip", 0.5, 40)
    one = crop_flip(images, boxes.mirrored(flip, side), flip, mapping="image")
    atol = 1e-5 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(one, two_step(images, boxes, flip), atol=atol, rtol=0)


@pytest.mark.parametrize("side", [8, 32, 64])
def test_torchvision_mapping_equals_crop_and_antialiased_resize(side: int) -> None:
    images = torch.rand(50, 3, side, side, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    boxes = torchvision_boxes(Draws(0), 50, side)
    mine = crop_flip(images, boxes, mapping="box")
    theirs = []
    for image, left, top, width, height in zip(images, *(b.int().tolist() for b in boxes), strict=True):
        theirs.append(tv.resized_crop(image, top, left, height, width, [side, side], antialias=True))
    torch.testing.assert_close(mine, torch.stack(theirs), atol=1e-7, rtol=0)


def test_corner_mapping_takes_corner_pixels_to_corner_pixels() -> None:
    image = torch.arange(64.0, dtype=torch.float64).view(1, 1, 8, 8).expand(1, 3, 8, 8)
    out = crop_flip(image, boxes_of((2, 1, 4, 5)), mapping="corners")[0, 0]
    assert out[0, 0].item() == pytest.approx(8 * 1 + 2)
    assert out[-1, -1].item() == pytest.approx(8 * 5 + 5)
    assert out[0, 3].item() == pytest.approx(8 * 1 + 2 + 3 * 3 / 7)  # x0 + i (w-1)/(W-1)


@pytest.mark.parametrize("mapping", ["image", "box", "corners"])
@pytest.mark.parametrize("side", [2, 8, 32, 64])
def test_whole_box_is_the_identity_and_flip_an_involution(mapping: str, side: int) -> None:
    images = torch.rand(5, 3, side, side).contiguous(memory_format=torch.channels_last)
    flip = torch.tensor([True, False, True, True, False])
    assert torch.equal(crop_flip(images, whole(5, side), mapping=mapping), images)
    once = crop_flip(images, whole(5, side), flip, mapping=mapping)
    assert torch.equal(once, torch.where(flip[:, None, None, None], images.flip(3), images))
    assert torch.equal(crop_flip(once, whole(5, side), flip, mapping=mapping), images)
    assert once.is_contiguous(memory_format=torch.channels_last)


def test_one_shared_box_equals_the_same_box_for_every_image() -> None:
    images = torch.rand(4, 3, 8, 8)
    shared = boxes_of((1, 2, 5, 4))
    each = boxes_of(*[(1, 2, 5, 4)] * 4)
    one = crop_flip(images, shared, torch.tensor([True]), mapping="box")
    assert torch.equal(one, crop_flip(images, each, torch.tensor([True] * 4), mapping="box"))


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40), st.sampled_from([2, 8, 32, 33]))
def test_boxes_lie_inside_the_image(seed: int, n: int, side: int) -> None:
    for sampler in (torchvision_boxes, kornia_boxes, ocm_boxes):
        boxes = sampler(Draws(seed), n, side)
        assert all(part.shape == (n,) for part in boxes)
        assert (boxes.width >= 1).all()
        assert (boxes.height >= 1).all()
        assert (boxes.left >= 0).all()
        assert (boxes.left + boxes.width <= side).all()
        assert (boxes.top >= 0).all()
        assert (boxes.top + boxes.height <= side).all()
        whole_pixels = boxes.left * (2 if sampler is ocm_boxes else 1)
        assert torch.equal(whole_pixels, whole_pixels.floor())


def area(boxes: Boxes, side: int) -> Tensor:
    return boxes.width * boxes.height / side**2


def test_kornia_boxes_have_the_measured_mean_area() -> None:
    boxes = kornia_boxes(Draws(0), 40_000, 32)
    assert area(boxes, 32).mean().item() == pytest.approx(0.518, abs=0.004)
    fallback = (boxes.width == 32) | (boxes.height == 32)
    assert torch.equal(fallback, (boxes.width == 32) & (boxes.height == 32))  # strictly smaller, or all of it


def test_torchvision_boxes_have_torchvisions_distribution() -> None:
    from torchvision.transforms import RandomResizedCrop

    torch.manual_seed(0)
    image = torch.empty(3, 32, 32)
    theirs = torch.tensor([RandomResizedCrop.get_params(image, [0.2, 1.0], [3 / 4, 4 / 3]) for _ in range(8000)])
    top, left, height, width = theirs.double().T
    mine = torchvision_boxes(Draws(1), 40_000, 32)
    pairs = [(mine.left, left), (mine.top, top), (mine.width, width), (mine.height, height)]
    for a, b in [*pairs, (mine.width * mine.height, width * height), (mine.width / mine.height, width / height)]:
        assert a.mean().item() == pytest.approx(b.mean().item(), abs=5 * b.std().item() / math.sqrt(8000))
        assert a.std().item() == pytest.approx(b.std().item(), rel=0.05)


def test_ocm_boxes_are_uniform_where_nothing_is_rejected() -> None:
    boxes = ocm_boxes(Draws(0), 40_000, 32)
    small = area(boxes, 32)
    small = small[small < 0.7]  # below 0.75 every aspect ratio fits: no trial is dropped
    assert small.mean().item() == pytest.approx(0.5, abs=0.01)
    log_ratio = (boxes.width / boxes.height).log()
    assert log_ratio.mean().item() == pytest.approx(0, abs=0.01)
    assert log_ratio.abs().max().item() < math.log(4 / 3) + 0.08  # the rounding of the sides
    centre = boxes.left + boxes.width / 2
    assert centre.mean().item() == pytest.approx(16, abs=0.1)
