"""A smaller version of a data set: fewer pixels, fewer images a class, by rules that need no random number.

Pixels: an image of side S becomes one of side s where s divides S. Each new pixel is the mean of its square of
(S/s) x (S/s) old ones, rounded to the nearest whole number, halves up: (sum + n // 2) // n for the n old ones.
Images: of each class the first n of the published order, for training and for testing, in that order.
Classes: those of tasks that are spelled out, numbered anew in the order of their numbers.
So whoever has the published archive gets the same bytes, for every method and seed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from emi_bench.data.arrays import Arrays, Images, Labels
from emi_bench.data.dataset import DataSet
from emi_bench.data.info import DataInfo
from emi_bench.data.tasks import Class, class_number
from emi_bench.errors import UserError


@dataclass(frozen=True)
class Reduction:
    """What is kept of a data set; `None` is all of it."""

    image_size: int | None = None
    train_per_class: int | None = None
    test_per_class: int | None = None
    classes: tuple[Class, ...] | None = None

    def __bool__(self) -> bool:
        return any(getattr(self, f.name) is not None for f in fields(self))

    def check(self, info: DataInfo) -> None:
        """Refuses what the data set cannot give, as far as its description tells."""
        if self.image_size is not None and info.image_size % self.image_size:
            sizes = [s for s in range(4, info.image_size + 1) if info.image_size % s == 0]
            raise UserError(
                f"image_size {self.image_size} does not divide the {info.image_size} pixels of {info.name}",
                hint=f"images of {info.name} can have {', '.join(map(str, sizes))} pixels a side",
            )
        for split, asked, there in (
            ("train", self.train_per_class, info.n_train),
            ("test", self.test_per_class, info.n_test),
        ):
            most = there // info.n_classes
            if asked is not None and asked > most:
                raise UserError(
                    f"{split}_per_class {asked} is more than {info.name} has: "
                    f"{there} images of {info.n_classes} classes",
                    hint=f"use {split}_per_class {most} or less",
                )

    def of(self, info: DataInfo) -> DataInfo:
        """The description of the smaller data set. Mean and std stay: they are constants that the papers give.

        Without some of the classes, the numbers of images are estimates: classes may differ in size.
        """
        n = len(self.classes or ()) or info.n_classes
        return replace(
            info,
            n_classes=n,
            class_names=info.class_names if n == info.n_classes else (),
            image_size=self.image_size or info.image_size,
            n_train=(self.train_per_class or 0) * n or info.n_train * n // info.n_classes,
            n_test=(self.test_per_class or 0) * n or info.n_test * n // info.n_classes,
        )

    def apply(self, data: DataSet) -> DataSet:
        """The smaller data set, with the fingerprint of its own content."""
        asked = range(data.n_classes) if self.classes is None else [class_number(data.info, c) for c in self.classes]
        if not replace(self, classes=None) and len(asked) == data.n_classes:
            return data
        names = tuple(data.class_names[c] for c in sorted(asked))
        new = np.full(data.n_classes, -1)
        new[sorted(asked)] = np.arange(len(names))
        train, test = new[data.y_train.numpy()], new[data.y_test.numpy()]
        kept = first_of_each(train, names, self.train_per_class, "train")
        tested = first_of_each(test, names, self.test_per_class, "test")
        x_train = data.x_train.permute(0, 2, 3, 1).numpy()[kept]
        x_test = data.x_test.permute(0, 2, 3, 1).numpy()[tested]
        size = self.image_size or data.image_size
        arrays = Arrays(averaged(x_train, size), train[kept], averaged(x_test, size), test[tested], names)
        return DataSet.from_arrays(data.info, arrays)

    def confirm(self, data: DataSet) -> None:
        """Raises where the data has not been reduced: its results would be filed as what they are not."""
        told = (self.image_size, self.train_per_class, self.test_per_class)
        n = data.n_classes
        if self.classes is not None and len(self.classes) != n:
            raise ValueError(f"the data has {n} classes, the tasks of the spec have {len(self.classes)}")
        found = (data.image_size, len(data.y_train) / n, len(data.y_test) / n)
        if any(wanted not in (None, there) for wanted, there in zip(told, found, strict=True)):
            raise ValueError(f"the data has {found} (pixels, training and test images a class), the spec says {told}")


def first_of_each(labels: Labels, class_names: tuple[str, ...], n: int | None, split: str) -> Labels:
    """Indices of the first n images of each class, ascending; of all images of a class without n.

    >>> first_of_each(np.array([1, 0, 1, 1, 0, 0]), ("a", "b"), 2, "train")
    array([0, 1, 2, 4])
    """
    if n is None:
        return np.flatnonzero(labels >= 0)
    found = [np.flatnonzero(labels == c)[:n] for c in range(len(class_names))]
    for name, members in zip(class_names, found, strict=True):
        if len(members) < n:
            raise UserError(
                f"{split}_per_class {n} is more than class {name} has: {len(members)} images",
                hint=f"use {split}_per_class {min(map(len, found))} or less",
            )
    return np.sort(np.concatenate(found))


def averaged(images: Images, size: int) -> Images:
    """Images (N,S,S,3) as (N,size,size,3), each pixel the rounded mean of the square it covers.

    >>> averaged(np.array([[0, 1], [0, 1]], np.uint8).reshape(1, 2, 2, 1), 1).ravel()  # 0.5: halves go up
    array([1], dtype=uint8)
    """
    n, side, _, channels = images.shape
    f = side // size
    if f == 1:
        return np.ascontiguousarray(images)
    squares = images.reshape(n, size, f, size, f, channels)
    total = squares.sum(axis=(2, 4), dtype=np.uint32)
    small: Images = ((total + f * f // 2) // (f * f)).astype(np.uint8)
    return small
