"""A picture of a data set: the first training images of every class, a row a class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from emi_bench.data.dataset import DataSet

if TYPE_CHECKING:
    from PIL.Image import Image

GAP = 2
SMALLEST = 32  #: pixels that an image takes at least, enlarged by a whole number


def picture(data: DataSet, columns: int = 10) -> Image:
    """Rows in the order of the labels, each with its number and name; what a class has too few of stays white."""
    from PIL import Image, ImageDraw

    scale = max(1, SMALLEST // data.image_size)
    cell = data.image_size * scale + GAP
    titles = [str(c) if name == str(c) else f"{c} {name}" for c, name in enumerate(data.class_names)]
    margin = 10 + max(int(ImageDraw.Draw(Image.new("L", (1, 1))).textlength(title)) for title in titles)
    out = Image.new("RGB", (margin + columns * cell, data.n_classes * cell + GAP), "white")
    draw = ImageDraw.Draw(out)
    labels = data.y_train.numpy()
    for c, title in enumerate(titles):
        draw.text((5, GAP + (c + 0.5) * cell), title, fill="black", anchor="lm")
        for i, at in enumerate(np.flatnonzero(labels == c)[:columns]):
            image = data.x_train[int(at)].permute(1, 2, 0).numpy().repeat(scale, 0).repeat(scale, 1)
            out.paste(Image.fromarray(image), (margin + i * cell, GAP + c * cell))
    return out
