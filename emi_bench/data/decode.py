"""Image files to one uint8 array."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from emi_bench.data.arrays import Images
from emi_bench.errors import UserError

CHUNK = 256  #: images a thread takes at a time


def decode(names: Sequence[str], read: Callable[[str], bytes], where: str) -> Images:
    """Images (N,H,W,3) in the order of `names`; greyscale and palette images become RGB.

    All must have the size of the first. `read` gives a file's bytes and may be called from several threads.
    """
    from PIL import Image

    def opened(name: str) -> Image.Image:
        try:
            return Image.open(io.BytesIO(read(name)))
        except (OSError, zipfile.BadZipFile, Image.DecompressionBombError) as e:
            raise UserError(
                f"{where}: {name} is not a readable image ({e})", hint="Replace or remove that file."
            ) from e

    width, height = opened(names[0]).size
    out = np.empty((len(names), height, width, 3), dtype=np.uint8)

    def fill(start: int) -> None:
        for i in range(start, min(start + CHUNK, len(names))):
            image = opened(names[i])
            if image.size != (width, height):
                raise UserError(
                    f"{where}: {names[0]} is {width}x{height}, {names[i]} is {image.size[0]}x{image.size[1]}",
                    hint="All images must have one size: resize them first.",
                )
            try:
                out[i] = np.asarray(image.convert("RGB"))
            except (OSError, SyntaxError) as e:  # Pillow's word for a broken PNG is SyntaxError
                raise UserError(
                    f"{where}: {names[i]} is not a readable image ({e})", hint="Replace or remove that file."
                ) from e

    pool = ThreadPoolExecutor(os.cpu_count() or 1)  # Pillow decodes without holding the interpreter's lock
    try:
        for _ in pool.map(fill, range(0, len(names), CHUNK)):
            pass
    finally:
        pool.shutdown(cancel_futures=True)
    return out
