"""What every view promises: shape, dtype, memory format, range, one draw for each image or one for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchvision.transforms as T
import torchvision.transforms.functional as tv
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from emi_bench.data.views import diffaug, dvc_view, ocm_view, pcr_view, rot16, scr_view
from emi_bench.data.views.colour import draw_factors
from emi_bench.data.views.crop import kornia_boxes, torchvision_boxes
from emi_bench.draws import Draws

View = Callable[[Tensor, Draws], Tensor]
VIEWS = pytest.mark.parametrize("view", [ocm_view, scr_view, dvc_view, pcr_view, diffaug])
PER_IMAGE = pytest.mark.parametrize("view", [ocm_view, scr_view, pcr_view, diffaug])


def photos(n: int, side: int = 32, dtype: torch.dtype = torch.float32) -> Tensor:
    x = torch.rand(n, 3, side, side, dtype=dtype, generator=torch.Generator().manual_seed(n))
    return x.contiguous(memory_format=torch.channels_last)


@VIEWS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("n", "side"), [(1, 8), (3, 2), (10, 32), (7, 33), (0, 8)])
def test_shape_dtype_and_memory_format_are_kept(view: View, dtype: torch.dtype, n: int, side: int) -> None:
    x = photos(n, side, dtype)
    before = x.clone()
    out = view(x, Draws(n))
    assert (out.shape, out.dtype) == (x.shape, dtype)
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(x, before)
    torch.testing.assert_close(view(x.contiguous(), Draws(n)), out, atol=1e-6, rtol=0)
    assert view(x.contiguous(), Draws(n)).is_contiguous()


@VIEWS
def test_autocast_does_not_touch_a_view(view: View) -> None:
    x = photos(6, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = view(x, Draws(2))
    assert torch.equal(out, view(x, Draws(2)))


@VIEWS
def test_same_draws_give_the_same_view_and_others_another(view: View) -> None:
    x = photos(20)
    assert torch.equal(view(x, Draws(0)), view(x, Draws(0)))
    assert not torch.equal(view(x, Draws(0)), view(x, Draws(1)))


@pytest.mark.parametrize("view", [scr_view, dvc_view, pcr_view])
def test_pixels_stay_in_the_unit_interval(view: View) -> None:
    for seed in range(5):
        out = view(photos(50, 8), Draws(seed))
        assert out.min() >= 0
        assert out.max() <= 1


@PER_IMAGE
def test_equal_images_get_different_views(view: View) -> None:
    out = view(photos(1).expand(64, -1, -1, -1).contiguous(memory_format=torch.channels_last), Draws(0))
    assert len({tuple(image.flatten().tolist()) for image in out}) == 64


def test_dvc_gives_equal_images_equal_views() -> None:
    x = photos(1).expand(64, -1, -1, -1).contiguous(memory_format=torch.channels_last)
    for seed in range(10):
        out = dvc_view(x, Draws(seed))
        torch.testing.assert_close(out, out[:1].expand_as(out), atol=1e-6, rtol=0)


@PER_IMAGE
def test_an_image_is_not_influenced_by_its_neighbours(view: View) -> None:
    x = photos(12, dtype=torch.float64)
    other = x.clone()
    other[::2] = torch.rand_like(other[::2])
    torch.testing.assert_close(view(x, Draws(4))[1::2], view(other, Draws(4))[1::2], atol=1e-12, rtol=0)


def share(changed: Tensor) -> float:
    return changed.flatten(1).all(1).double().mean().item()


@pytest.mark.parametrize(("view", "p"), [(ocm_view, 0.25), (scr_view, 0.2), (pcr_view, 0.2)])
def test_grey_images_have_the_stated_share(view: View, p: float) -> None:
    out = view(photos(4000, 4), Draws(0))
    assert share((out.amax(1) - out.amin(1)) < 1e-6) == pytest.approx(p, abs=0.03)


def test_four_in_five_images_are_jittered() -> None:
    """A flat image shows neither crop nor flip nor grey. Half of the brightness factors change a black or white one."""
    brighter = scr_view(torch.zeros(4000, 3, 4, 4), Draws(0)) > 1e-3
    darker = pcr_view(torch.ones(4000, 3, 4, 4), Draws(0)) < 1 - 1e-3
    assert share(brighter) == pytest.approx(0.8 / 2, abs=0.03)
    assert share(darker) == pytest.approx(0.8 / 2, abs=0.03)


def torchvision_steps(image: Tensor, box: list[int], flip: bool, factors: list[float], order: list[int]) -> Tensor:
    left, top, width, height = box
    out = tv.resized_crop(image, top, left, height, width, list(image.shape[1:]), antialias=True)
    out = tv.hflip(out) if flip else out
    for op in order:
        out = (tv.adjust_brightness, tv.adjust_contrast, tv.adjust_saturation, tv.adjust_hue)[op](out, factors[op])
    return out


@pytest.mark.parametrize("seed", range(6))
def test_dvc_view_equals_torchvision_with_the_same_parameters(seed: int) -> None:
    x, draws = photos(5), Draws(seed)
    box = [int(part) for part in torchvision_boxes(draws, 1, 32)]
    flip = bool(draws.bernoulli("", 0.5, 1))
    order = draws.permutation("", 4).tolist()
    factors = [float(f) for f in draw_factors(draws, 1)]
    gray = bool(draws.bernoulli("", 0.2, 1))
    theirs = torch.stack([torchvision_steps(image, box, flip, factors, order) for image in x])
    theirs = tv.rgb_to_grayscale(theirs, 3) if gray else theirs
    torch.testing.assert_close(dvc_view(x, Draws(seed)), theirs, atol=1e-5, rtol=0)


def test_pcr_view_equals_torchvision_image_by_image() -> None:
    n = 32
    x, draws = photos(n), Draws(9)
    boxes = torch.stack(list(torchvision_boxes(draws, n, 32)), 1).int().tolist()
    flip, jittered = (draws.bernoulli("", p, n).tolist() for p in (0.5, 0.8))
    orders = draws.uniform("", n, 4).argsort(1).tolist()
    factors = torch.stack(list(draw_factors(draws, n)), 1).tolist()
    gray = draws.bernoulli("", 0.2, n).tolist()
    mine = pcr_view(x, Draws(9))
    for i in range(n):
        out = torchvision_steps(x[i], boxes[i], flip[i], factors[i], orders[i] if jittered[i] else [])
        out = tv.rgb_to_grayscale(out, 3) if gray[i] else out
        torch.testing.assert_close(mine[i], out, atol=1e-5, rtol=0)


def test_pcr_view_differs_from_eight_bit_images_by_their_rounding() -> None:
    x = (photos(1) * 255).round() / 255
    factors = [1.2, 0.8, 1.3, 0.05]
    mine = torchvision_steps(x[0], [3, 2, 20, 24], True, factors, [2, 0, 3, 1])
    image = T.ToPILImage()(x[0])
    image = tv.hflip(tv.resized_crop(image, 2, 3, 24, 20, [32, 32]))
    image = tv.adjust_brightness(tv.adjust_saturation(image, 1.3), 1.2)
    image = tv.adjust_contrast(tv.adjust_hue(image, 0.05), 0.8)
    assert (mine - tv.to_tensor(image)).abs().mean() < 2 / 255


def test_scr_view_by_its_steps() -> None:
    """Crop with the corner mapping, flip, the four old kornia operations in one order, grey."""
    n = 24
    x, draws = photos(n, dtype=torch.float64), Draws(6)
    boxes = kornia_boxes(draws, n, 32)
    flip, jittered = (draws.bernoulli("", p, n) for p in (0.5, 0.8))
    b, c, s, h = draw_factors(draws, n)
    order = draws.permutation("", 4).tolist()
    gray = draws.bernoulli("", 0.2, n)
    mine = scr_view(x, Draws(6))
    weights = torch.tensor([0.299, 0.587, 0.114], dtype=torch.float64).view(3, 1, 1)
    for i in range(n):
        rows = boxes.top[i] + torch.arange(32) * (boxes.height[i] - 1) / 31
        columns = boxes.left[i] + torch.arange(32) * (boxes.width[i] - 1) / 31
        image = interpolate(interpolate(x[i], rows, 1), columns, 2)
        image = image.flip(2) if flip[i] else image
        for op in order if jittered[i] else []:
            if op == 0:
                image = (image + b[i] - 1).clamp(0, 1)
            elif op == 1:
                image = (image * c[i]).clamp(0, 1)
            elif op == 2:
                v = image.amax(0)
                saturation = (v - image.amin(0)) / v.clamp_min(1e-12)
                image = v - (v - image) * ((saturation * s[i]).clamp(0, 1) / saturation.clamp_min(1e-12))
            else:
                image = tv.adjust_hue(image, h[i].item())
        if gray[i]:
            image = (image * weights).sum(0).expand(3, -1, -1)
        torch.testing.assert_close(mine[i], image, atol=1e-5, rtol=0)


def interpolate(image: Tensor, at: Tensor, dim: int) -> Tensor:
    low = at.floor().long()
    high = (low + 1).clamp_max(image.shape[dim] - 1)
    part = (at - low).view([-1 if d == dim else 1 for d in range(3)])
    return image.index_select(dim, low) * (1 - part) + image.index_select(dim, high) * part


class OpCounter(TorchDispatchMode):
    """Dispatched operations that are not views: what a GPU would launch."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += not func.is_view
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("view", [ocm_view, scr_view, dvc_view, pcr_view, diffaug, lambda x, draws: rot16(x)])
def test_views_launch_few_operations(view: View) -> None:
    x = photos(16)
    with OpCounter() as ops:
        view(x, Draws(0))
    assert 0 < ops.count <= 60
