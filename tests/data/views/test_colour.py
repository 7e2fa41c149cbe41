"""Colour operations against torchvision and the worked pixels of the old kornia semantics."""

from __future__ import annotations

import colorsys

import pytest
import torch
import torchvision.transforms.functional as tv
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from emi_bench.data.views import colour
from emi_bench.data.views.ordered_jitter import ordered_jitter
from emi_bench.draws import Draws
from tests.golden_files import golden

THEIRS = (tv.adjust_brightness, tv.adjust_contrast, tv.adjust_saturation, tv.adjust_hue)


def batch(n: int = 12, side: int = 9, dtype: torch.dtype = torch.float32) -> Tensor:
    x = torch.rand(n, 3, side, side, dtype=dtype, generator=torch.Generator().manual_seed(n))
    x[0] = x[0, :1]  # grey pixels have no hue
    x[1] = 0
    x[2] = 1
    x[3] = (x[3] > 0.5).to(dtype)  # ties of the largest channel
    return x.contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("op", range(4))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_torchvision_operations_equal_torchvision(op: int, dtype: torch.dtype) -> None:
    x = batch(dtype=dtype)
    factors = colour.draw_factors(Draws(5), len(x))[op]
    mine = colour.TORCHVISION[op](x, factors)
    theirs = torch.stack([THEIRS[op](image, f) for image, f in zip(x, factors.tolist(), strict=True)])
    torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=0)
    assert mine.dtype == dtype


@pytest.mark.parametrize("op", range(4))
def test_one_factor_for_all_equals_the_same_factor_for_each(op: int) -> None:
    x, f = batch(), torch.tensor([0.07 if op == 3 else 1.3])
    for family in (colour.TORCHVISION, colour.KORNIA):
        torch.testing.assert_close(family[op](x, f), family[op](x, f.expand(len(x))), atol=1e-7, rtol=0)


def pixel(*rgb: float) -> Tensor:
    return torch.tensor(rgb, dtype=torch.float64).view(1, 3, 1, 1)


def rgb(x: Tensor) -> list[float]:
    return [float(v) for v in x.flatten()]


def test_kornia_pixel_by_hand() -> None:
    x = pixel(0.1, 0.2, 0.7)
    assert rgb(colour.add_brightness(x, torch.tensor([1.3]))) == pytest.approx([0.4, 0.5, 1.0])
    assert rgb(colour.scale_contrast(x, torch.tensor([0.7]))) == pytest.approx([0.07, 0.14, 0.49])
    assert rgb(colour.blend_brightness(x, torch.tensor([1.3]))) == pytest.approx([0.13, 0.26, 0.91])


unit = st.floats(0, 1)


@settings(deadline=None)
@given(unit, unit, unit, st.floats(0.6, 1.4), st.floats(-0.5, 0.5))
def test_saturation_and_hue_are_those_of_hsv(r: float, g: float, b: float, scale: float, turns: float) -> None:
    h, s, v = colorsys.rgb_to_hsv(r, g, b)
    saturated = colour.scale_saturation(pixel(r, g, b), torch.tensor([scale], dtype=torch.float64))
    assert rgb(saturated) == pytest.approx(colorsys.hsv_to_rgb(h, min(s * scale, 1.0), v), abs=1e-9)
    shifted = colour.shift_hue(pixel(r, g, b), torch.tensor([turns], dtype=torch.float64))
    if s > 1e-6:  # nearer to grey the hue is a ratio of rounding errors
        assert rgb(shifted) == pytest.approx(colorsys.hsv_to_rgb((h + turns) % 1, s, v), abs=1e-6)


def test_neutral_factors_change_nothing() -> None:
    x = batch(dtype=torch.float64)
    for family in (colour.TORCHVISION, colour.KORNIA):
        for op, neutral in enumerate([1.0, 1.0, 1.0, 0.0]):
            torch.testing.assert_close(family[op](x, torch.tensor([neutral])), x, atol=1e-12, rtol=0)


def test_grey_matches_the_recorded_images() -> None:
    trace = golden("ocm_augment")
    x = torch.tensor(trace["images"], dtype=torch.float64)
    out = colour.grey_where(x, torch.tensor(trace["gray_mask"]) == 1)
    torch.testing.assert_close(out, torch.tensor(trace["gray"], dtype=torch.float64), atol=1e-6, rtol=0)


def test_grey_of_grey_is_grey_and_the_rest_is_untouched() -> None:
    x = batch(dtype=torch.float64)
    which = torch.arange(len(x)) % 3 == 0
    once = colour.grey_where(x, which)
    torch.testing.assert_close(colour.grey_where(once, which), once, atol=1e-12, rtol=0)
    assert torch.equal(once[~which], x[~which])
    assert torch.equal(once[which, 0], once[which, 2])
    assert once.is_contiguous(memory_format=torch.channels_last)
    theirs = tv.rgb_to_grayscale(x, 3)
    mine = colour.grey_where(x, torch.tensor([True]), colour.GREY_TORCHVISION)
    torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_image_follows_its_own_order(dtype: torch.dtype) -> None:
    n, draws = 48, Draws(2)
    x = batch(n, dtype=dtype)
    orders = draws.uniform("view.order", n, 4).argsort(1)
    assert len({tuple(o) for o in orders.tolist()}) > 15
    factors = colour.draw_factors(draws, n)
    theirs = []
    for i, order in enumerate(orders.tolist()):
        image = x[i]
        for op in order:
            image = THEIRS[op](image, factors[op][i].item())
        theirs.append(image)
    mine = ordered_jitter(x, factors, orders)
    torch.testing.assert_close(mine, torch.stack(theirs), atol=1e-5, rtol=0)
    assert mine.is_contiguous(memory_format=torch.channels_last)


def test_the_order_matters() -> None:
    x = batch(4)
    factors = [torch.full((4,), f) for f in (1.4, 0.6, 1.4, 0.1)]
    one = ordered_jitter(x, factors, torch.tensor([[0, 1, 2, 3]]).expand(4, 4))
    other = ordered_jitter(x, factors, torch.tensor([[3, 2, 1, 0]]).expand(4, 4))
    assert (one - other).abs().max() > 0.01


def test_factors_keep_to_their_ranges() -> None:
    *scales, hue = colour.draw_factors(Draws(0), 5000)
    for f in scales:
        assert 0.6 <= f.min() < 0.61
        assert 1.39 < f.max() < 1.4
    assert -0.1 <= hue.min() < -0.099
    assert 0.099 < hue.max() < 0.1
