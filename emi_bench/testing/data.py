"""The data of the battery: a few real digits to learn from, and made-up sets with awkward shapes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from emi_bench.data import DataSet, checked, load, register

BATCH = 5  #: of the stream, in every check but the one for learning
LEARN = "check-digits"  #: four classes of digits in two tasks, 100 training images each
PLAIN = "check-plain"  #: three tasks of two classes, whole batches
SHORT = "check-short"  #: two tasks of two classes, the last batch of a task has one image
LONELY = "check-lonely"  #: three tasks of one class


def blobs(name: str, classes: int, per_class: int, side: int = 8, test: int = 6, seed: int = 0) -> DataSet:
    """Classes that differ by their mean colour and a pattern: easy to learn in a few steps."""
    rng = np.random.default_rng(seed)
    pattern = rng.integers(0, 256, (classes, side, side, 3))

    def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.repeat(np.arange(classes), n)
        noise = rng.normal(0, 30, (len(y), side, side, 3))
        return np.clip(pattern[y] + noise, 0, 255).astype(np.uint8), y

    (x, y), (xt, yt) = draw(per_class), draw(test)
    return DataSet.from_arrays(name, checked(name, x, y, xt, yt))


def four_digits() -> DataSet:
    digits = load("digits")
    train = np.concatenate([np.flatnonzero(digits.y_train.numpy() == c)[:100] for c in range(4)])
    test = np.flatnonzero(digits.y_test.numpy() < 4)
    images = [x.permute(0, 2, 3, 1).numpy() for x in (digits.x_train[train], digits.x_test[test])]
    labels = [y.numpy() for y in (digits.y_train[train], digits.y_test[test])]
    return DataSet.from_arrays(LEARN, checked(LEARN, images[0], labels[0], images[1], labels[1]))


def register_check_data() -> None:
    """Make the data sets of the battery known by their names."""
    sets = {
        four_digits(): 2,
        blobs(PLAIN, classes=6, per_class=BATCH): 3,
        blobs(SHORT, classes=4, per_class=8): 2,
        blobs(LONELY, classes=3, per_class=9): 3,
    }
    for data, n_tasks in sets.items():
        register(replace(data.info, n_tasks=n_tasks), lambda root, data=data: data)  # type: ignore[misc]
