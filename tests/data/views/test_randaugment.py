"""RandAugment: torchvision's own, bit for bit, with every choice forced; and a choice for each image."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor
from torchvision.transforms import RandAugment, functional

from emi_bench.data.views.randaugment import equalize, operations, randaugment_view
from emi_bench.draws import Draws
from emi_bench.testing import ScriptedDraws


def pictures(n: int = 6, side: int = 32) -> Tensor:
    x = torch.randint(0, 256, (n, 3, side, side), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    x[0], x[1] = 7, x[1] // 64  # one grey, four greys
    return x


@pytest.mark.parametrize("side", [8, 32])
@pytest.mark.parametrize("strength", [0, 1, 11, 15, 30])
def test_every_operation_is_torchvisions(strength: int, side: int) -> None:
    x = pictures(side=side)
    theirs = RandAugment(1, strength)
    names = list(theirs._augmentation_space(31, (side, side)).values())
    assert len(names) == len(operations(side))
    for number, (_, signed) in enumerate(names):
        for negative in (False, True) if signed else (False,):
            torch.manual_seed(seed_for(number, signed, negative))
            script = {"view.randaugment.op": [[number]], "view.randaugment.negative": [[negative]]}
            mine = randaugment_view(x / 255, ScriptedDraws(script), n_ops=1, strength=strength)
            assert torch.equal(mine, theirs(x) / 255), (number, negative)


@cache
def drawn(seed: int, signed: bool) -> tuple[int, bool]:
    """What torchvision draws after this seed."""
    torch.manual_seed(seed)
    return int(torch.randint(14, (1,))), bool(signed and torch.randint(2, (1,)))


def seed_for(number: int, signed: bool, negative: bool) -> int:
    return next(s for s in range(1000) if drawn(s, signed) == (number, negative))


def test_equalising_a_batch_is_equalising_its_images() -> None:
    x = pictures(20)
    assert torch.equal(equalize(x), functional.equalize(x))
    assert torch.equal(equalize(x[:1]), x[:1])


def test_per_image_every_image_has_operations_of_its_own() -> None:
    x = pictures(14) / 255
    numbers, signs = [list(range(14)), [13] * 14], [[True] * 14, [False] * 14]
    script = {"view.randaugment.op": numbers, "view.randaugment.negative": signs}
    out = randaugment_view(x, ScriptedDraws(script), n_ops=2, strength=15, per_image=True)
    for i in range(14):
        one = {"view.randaugment.op": [[i], [13]], "view.randaugment.negative": [[True], [False]]}
        alone = randaugment_view(x[i : i + 1], ScriptedDraws(one), n_ops=2, strength=15)
        assert torch.equal(out[i : i + 1], alone), i
    same = x[2:3].expand(40, -1, -1, -1)
    kinds = [
        torch.unique(randaugment_view(same, Draws(0), n_ops=1, strength=15, per_image=each).flatten(1), dim=0)
        for each in (False, True)
    ]
    assert len(kinds[0]) == 1
    assert len(kinds[1]) > 10
