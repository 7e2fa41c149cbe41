"""Arrays in a .npz file: x_train, y_train, x_test, y_test, and class_names if there are any."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from emi_bench.data.arrays import Arrays, checked
from emi_bench.errors import UserError

KEYS = ("x_train", "y_train", "x_test", "y_test")
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError, KeyError, NotImplementedError)


def read_npz(path: Path) -> Arrays:
    """The checked arrays of a file. Pickled objects in it are never loaded."""
    hint = f"An .npz has the arrays {', '.join(KEYS)}: np.savez('data.npz', x_train=..., ...)"
    try:
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise UserError(f"{path} is a single array, not an .npz", hint=hint)
        with file:
            absent = [key for key in KEYS if key not in file]
            if absent:
                raise UserError(f"{path} has no {', '.join(absent)}; it has {', '.join(file.files)}", hint=hint)
            arrays = [file[key] for key in KEYS]
            names = tuple(map(str, file["class_names"].tolist())) if "class_names" in file else None
    except DAMAGE as e:
        raise UserError(
            f"{path} cannot be read as an .npz ({e})",
            hint="It is cut short or damaged, or holds pickled objects: write it again with np.savez.",
        ) from e
    return checked(str(path), *arrays, class_names=names)
