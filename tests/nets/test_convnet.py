"""SSD's helper network."""

from __future__ import annotations

import pytest
import torch

from emi_bench.nets.convnet import ConvNet
from tests.golden_files import golden


@pytest.mark.parametrize("side", [32, 64, 84])
def test_sizes_are_the_recorded_ones(side: int) -> None:
    expected = golden("ssd_matching")["convnet_default"][f"im{side}"]
    net = ConvNet(10, image_size=side)
    assert net.num_feat == expected["num_feat"]
    assert sum(p.numel() for p in net.parameters()) == expected["params_C10"]
    assert net(torch.rand(1, 3, side, side)).shape == (1, 10)


@pytest.mark.parametrize("side", [2, 4, 8])
def test_small_images_get_as_many_blocks_as_they_can_be_halved(side: int) -> None:
    net = ConvNet(3, image_size=side, width=4)
    assert net.features(torch.rand(5, 3, side, side)).shape == (5, net.num_feat)
    assert len(net.layers["conv"]) == {2: 1, 4: 2, 8: 3}[side]


def test_an_image_is_not_influenced_by_its_neighbours() -> None:
    net, x = ConvNet(3, image_size=8, width=4).double(), torch.rand(6, 3, 8, 8, dtype=torch.float64)
    torch.testing.assert_close(net(x)[:2], net(x[:2]))
