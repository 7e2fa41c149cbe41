"""SSD's differentiable augmentation."""

from __future__ import annotations

import pytest
import torch

from emi_bench.data.views.diffaug import DiffAug, apply_diffaug, diffaug, draw_diffaug, largest_shift, shift
from emi_bench.draws import Draws
from emi_bench.testing import ScriptedDraws
from tests.golden_files import golden

TRACE = golden("ssd_matching")["diffaug"]
X = torch.tensor(TRACE["x"], dtype=torch.float64)
Y = torch.tensor(TRACE["y"], dtype=torch.float64)


def test_recorded_draws_give_the_recorded_images() -> None:
    script = {f"view.{what}": [TRACE[f"u_{what}"]] for what in ("brightness", "saturation", "contrast")}
    for axis, name in (("rows", "rows"), ("columns", "cols")):
        script[f"view.shift.{axis}"] = [[1 + s for s in TRACE[f"shift_{name}"]]]  # drawn from 0..2, less 1
    draws = ScriptedDraws(script)
    torch.testing.assert_close(diffaug(X, draws), Y, atol=1e-6, rtol=0)
    assert not draws.left()


def test_constant_image_by_hand() -> None:
    x = torch.full((1, 3, 8, 8), 0.3, dtype=torch.float64)
    u = torch.tensor([0.75])
    out = apply_diffaug(x, DiffAug(u, torch.tensor([0.9]), torch.tensor([0.1]), torch.tensor([1]), torch.tensor([0])))
    torch.testing.assert_close(out[:, :, :7], torch.full((1, 3, 7, 8), 0.55, dtype=torch.float64), atol=1e-7, rtol=0)
    assert (out[:, :, 7] == 0).all()


def test_shift_is_exact_and_fills_with_zeros() -> None:
    x = torch.rand(6, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    rows, columns = torch.tensor([0, 1, -1, 2, 0, -2]), torch.tensor([0, 0, 1, -2, 2, -1])
    out = shift(x, rows, columns)
    for i, (dr, dc) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        for r in range(8):
            for c in range(8):
                inside = 0 <= r + dr < 8 and 0 <= c + dc < 8
                expected = x[i, :, r + dr, c + dc] if inside else torch.zeros(3)
                assert torch.equal(out[i, :, r, c], expected)


@pytest.mark.parametrize(("side", "expected"), [(8, 1), (32, 4), (64, 8), (84, 11)])
def test_largest_shift(side: int, expected: int) -> None:
    assert largest_shift(side) == expected
    drawn = draw_diffaug(Draws(0), 3000, side)
    assert {int(drawn.rows.min()), int(drawn.columns.min())} == {-expected}
    assert {int(drawn.rows.max()), int(drawn.columns.max())} == {expected}


def test_gradients_are_those_of_finite_differences() -> None:
    x = torch.rand(2, 3, 4, 4, dtype=torch.float64, requires_grad=True)
    parameters = draw_diffaug(Draws(1), 2, 4)
    assert torch.autograd.gradcheck(lambda x: apply_diffaug(x, parameters), (x,))


def test_nothing_is_clamped() -> None:
    out = diffaug(torch.rand(64, 3, 8, 8), Draws(0))
    assert out.min() < 0
    assert out.max() > 1
