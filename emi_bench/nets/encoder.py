"""What a backbone is: images to feature maps, and the last of them to features."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from emi_bench.errors import UserError

BACKBONES: dict[str, type[Encoder]] = {}


class Encoder(nn.Module):
    """A backbone. A subclass with a `name` can be chosen by it: `protocol.backbone`.

    It is made as `cls(width, image_size=..., pooling=...)` with `protocol.width`, the side of the images and the
    method's `pooling`, sets `out_dim`, and gives `maps` and `pool`. Weights must come from torch's own generator: that
    one is seeded.
    """

    name: ClassVar[str]
    fixed_width: ClassVar[bool] = False  #: `protocol.width` means nothing to it
    smallest: ClassVar[int] = 4  #: side in pixels of the smallest images it takes
    out_dim: int  #: features of an image

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            known = BACKBONES.get(cls.name)
            if known is not None and known.__module__.startswith("emi_bench.") and known.__module__ != cls.__module__:
                raise UserError(f"'{cls.name}' is a backbone of emi-bench", hint="give yours another name")
            BACKBONES[cls.name] = cls

    @classmethod
    def macs(cls, width: int, image_size: int) -> float:
        """Multiply-accumulates of one forward of an image, for plans: those of the reduced ResNet-18, unless told."""
        return 54.6e6 * (width / 20 * image_size / 32) ** 2

    def maps(self, x: Tensor) -> tuple[Tensor, ...]:
        """Feature maps of images (n,3,H,W), from the first stage to the last, each (n,c,h,w)."""
        raise NotImplementedError

    def pool(self, last: Tensor) -> Tensor:
        """The last map as features (n, out_dim)."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(self.maps(x)[-1])
