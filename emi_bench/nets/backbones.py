"""Backbones by name: the reduced ResNet-18, torchvision's ResNet-18, and those of plugins and installed packages."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Any

import torch
from torch import Tensor

from emi_bench.errors import UserError
from emi_bench.nets.encoder import BACKBONES, Encoder
from emi_bench.nets.resnet import Pooling, ResNet
from emi_bench.registry import unknown


class ImageNetResNet18(Encoder):
    """torchvision's ResNet-18, untrained: widths 64 to 512, a stem of stride 4 and global pooling, 512 features.

    For images of 64 pixels and more: smaller ones leave a single pixel at the last stage.
    """

    name = "resnet18_imagenet"
    fixed_width = True
    smallest = 64
    out_dim = 512

    def __init__(self, width: int = 64, *, image_size: int = 224, pooling: Pooling = "global") -> None:
        super().__init__()
        from torchvision.models import resnet18  # two seconds, where it is needed

        net: Any = resnet18(weights=None)
        self.stem = torch.nn.Sequential(net.conv1, net.bn1, net.relu, net.maxpool)
        self.layer1, self.layer2, self.layer3, self.layer4 = net.layer1, net.layer2, net.layer3, net.layer4

    @classmethod
    def macs(cls, width: int, image_size: int) -> float:
        return 1.814e9 * (image_size / 224) ** 2

    maps = ResNet.maps

    def pool(self, last: Tensor) -> Tensor:
        return last.mean(dim=(2, 3))


@cache
def _load_entry_points() -> None:
    for entry in entry_points(group="emi_bench.backbones"):
        entry.load()


def get_backbone(name: str) -> type[Encoder]:
    """The class of a backbone; an unknown name answers with the list.

    >>> get_backbone("reduced_resnet18") is ResNet
    True
    """
    if name not in BACKBONES:
        _load_entry_points()
    if name not in BACKBONES:
        raise unknown("backbone", name, BACKBONES)
    return BACKBONES[name]


def check_backbone(name: str, image_size: int) -> type[Encoder]:
    """The class, where it takes images of this size."""
    backbone = get_backbone(name)
    if image_size < backbone.smallest:
        raise UserError(
            f"{name} takes images of {backbone.smallest} pixels and more, these have {image_size}",
            hint=f"leave protocol.backbone at {ResNet.name}",
        )
    return backbone


def need_reduced(name: str, who: str, hint: str = "") -> None:
    """Refuses any but the reduced ResNet-18 to a method that is built into its stages."""
    if name != ResNet.name:
        raise UserError(
            f"{who} the four maps of the reduced ResNet-18; {name} gives others",
            hint=f"leave protocol.backbone away{hint}",
        )


def make_encoder(name: str, width: int, *, image_size: int, pooling: Pooling) -> Encoder:
    """A new backbone. One that is not ours is tried on two black images first, so that a mistake in it has a name."""
    backbone = get_backbone(name)
    made = backbone(width, image_size=image_size, pooling=pooling)
    if backbone.__module__.startswith("emi_bench."):
        return made
    with torch.no_grad():
        found = tuple(made.eval()(torch.zeros(2, 3, image_size, image_size)).shape)
    if found != (2, made.out_dim):
        raise UserError(
            f"the backbone '{name}' gives features of the shape {found} for two images, its out_dim is {made.out_dim}",
            hint="`pool` must give (n, out_dim)",
        )
    made.train()
    return made
