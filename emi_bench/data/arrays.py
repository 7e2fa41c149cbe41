"""Images and labels as a loader reads them, and what must hold of them before anything is trained."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from emi_bench.errors import UserError

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]
Triple = tuple[float, float, float]

SPLITS = ("train", "test")


@dataclass(frozen=True)
class Arrays:
    """Both splits: images (N,H,W,3) uint8, labels (N,) int64 that number the classes 0..C-1."""

    x_train: Images
    y_train: Labels
    x_test: Images
    y_test: Labels
    class_names: tuple[str, ...]


def checked(
    where: str, x_train: Any, y_train: Any, x_test: Any, y_test: Any, *, class_names: tuple[str, ...] | None = None
) -> Arrays:
    """The arrays in their common form, or an error that names `where` and what is wrong there.

    Greyscale images, (N,H,W) or (N,H,W,1), get three equal channels; labels may have any integer type.

    >>> import numpy as np
    >>> x, y = np.zeros((4, 8, 8), np.uint8), np.array([0, 1, 0, 1])
    >>> a = checked("an example", x, y, x, y)
    >>> a.x_train.shape, a.y_train.dtype, a.class_names
    ((4, 8, 8, 3), dtype('int64'), ('0', '1'))
    """
    x_train, x_test = _images(where, "x_train", x_train), _images(where, "x_test", x_test)
    if x_train.shape[1:] != x_test.shape[1:]:
        raise UserError(
            f"{where}: x_train has images of {x_train.shape[1:]}, x_test of {x_test.shape[1:]}",
            hint="all images must have one size",
        )
    y_train, y_test = _labels(where, "y_train", y_train, len(x_train)), _labels(where, "y_test", y_test, len(x_test))
    n_classes = _count_classes(where, y_train, y_test)
    names = tuple(map(str, range(n_classes))) if class_names is None else class_names
    if len(names) != n_classes:
        raise UserError(f"{where}: {len(names)} class names for {n_classes} classes", hint="give one name per class")
    return Arrays(x_train, y_train, x_test, y_test, names)


def _images(where: str, key: str, x: Any) -> Images:
    x = np.asarray(x)
    if x.dtype != np.uint8:
        raise UserError(f"{where}: {key} is {x.dtype}, not uint8", hint="store pixels as uint8, 0 to 255")
    if x.ndim == 3:
        x = x[..., None]
    if x.ndim != 4 or x.shape[3] not in (1, 3):
        turned = x.ndim == 4 and x.shape[1] in (1, 3)
        hint = f"store {key}.transpose(0, 2, 3, 1)" if turned else "images are (N, height, width, 3), or without the 3"
        raise UserError(f"{where}: {key} has the shape {x.shape}", hint=hint)
    if len(x) == 0:
        raise UserError(f"{where}: {key} is empty", hint="both splits need images of every class")
    if x.shape[1] != x.shape[2]:
        raise UserError(
            f"{where}: {key} has images of {x.shape[1]}x{x.shape[2]}", hint="images must be square: crop or pad them"
        )
    return np.ascontiguousarray(x) if x.shape[3] == 3 else np.repeat(x, 3, axis=3)


def _labels(where: str, key: str, y: Any, n_images: int) -> Labels:
    y = np.asarray(y)
    if not np.issubdtype(y.dtype, np.integer):
        raise UserError(f"{where}: {key} is {y.dtype}, not integers", hint="labels are the class numbers 0, 1, ...")
    if y.ndim != 1:
        raise UserError(f"{where}: {key} has the shape {y.shape}", hint="labels are one number per image: (N,)")
    if len(y) != n_images:
        raise UserError(
            f"{where}: {key} has {len(y)} labels for {n_images} images", hint="store one label for every image"
        )
    labels: Labels = y.astype(np.int64)
    return labels


def _count_classes(where: str, y_train: Labels, y_test: Labels) -> int:
    found, tested = np.unique(y_train), np.unique(y_test)
    if not np.array_equal(found, np.arange(len(found))):
        raise UserError(
            f"{where}: y_train has labels {_listed(found)}; they must be 0 to {len(found) - 1} without gaps",
            hint="renumber them: np.unique(y_train, return_inverse=True)[1]",
        )
    if not np.array_equal(found, tested):
        odd = np.setxor1d(found, tested)
        raise UserError(
            f"{where}: labels {_listed(odd)} are in only one of y_train and y_test",
            hint="every class needs training and test images",
        )
    if len(found) < 2:
        raise UserError(f"{where}: there is only one class", hint="a class-incremental stream needs two or more")
    if len(found) > 65536:
        raise UserError(f"{where}: {len(found)} classes; 65536 are the most", hint="merge classes")
    return len(found)


def _listed(labels: Labels, most: int = 8) -> str:
    return ", ".join(map(str, labels[:most].tolist())) + (" ..." if len(labels) > most else "")


def content_sha256(x: Images, y: Labels, n_classes: int) -> str:
    """sha256(images (N,H,W,3) as uint8 bytes + labels as uint8 bytes).

    Over 256 classes, labels are little-endian uint16 bytes.

    >>> import numpy as np
    >>> found = content_sha256(np.zeros((1, 1, 1, 3), np.uint8), np.array([1]), 2)
    >>> found == hashlib.sha256(bytes([0, 0, 0, 1])).hexdigest()
    True
    """
    digest = hashlib.sha256(np.ascontiguousarray(x).data)
    digest.update(y.astype(np.uint8 if n_classes <= 256 else "<u2").tobytes())
    return digest.hexdigest()


def mean_and_std(x: Images) -> tuple[Triple, Triple]:
    """Mean and standard deviation of each channel in 0-1, to four digits; exact, from the histogram of pixel values.

    >>> import numpy as np
    >>> mean_and_std(np.array([0, 0, 51, 255, 0, 51], np.uint8).reshape(2, 1, 1, 3))
    ((0.5, 0.0, 0.2), (0.5, 0.0, 0.0))
    """
    values = np.arange(256) / 255
    means, stds = [], []
    for channel in range(3):
        counts = np.zeros(256, dtype=np.int64)
        for part in np.array_split(x, 16):  # a bincount of all pixels at once would hold them as int64
            counts += np.bincount(part[..., channel].ravel(), minlength=256)
        share = counts / counts.sum()
        mean = float(share @ values)
        means.append(round(mean, 4))
        stds.append(round(float(np.sqrt(share @ (values - mean) ** 2)), 4))
    return (means[0], means[1], means[2]), (stds[0], stds[1], stds[2])
