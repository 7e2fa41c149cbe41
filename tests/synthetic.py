"""Small made-up data sets and runs, for tests of everything but learning."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from emi_bench.data import DataInfo, DataSet, checked, load, register
from emi_bench.run.resolve import resolve
from emi_bench.run.spec import RunSpec

FAST = {"width": 2, "batch": 10, "replay_batch": 10}


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


def register_blobs(name: str, classes: int, n_tasks: int, per_class: int, side: int = 8) -> DataSet:
    """A blob data set under a registry name, so that specs and commands can name it."""
    data = blobs(name, classes, per_class, side)
    info = DataInfo(
        name=name,
        n_classes=classes,
        n_tasks=n_tasks,
        image_size=side,
        n_train=len(data.y_train),
        n_test=len(data.y_test),
        mean=(0.5, 0.5, 0.5),
        std=(0.3, 0.3, 0.3),
    )
    register(info, lambda root: data)
    return load(name)


def spec(method: str = "er", dataset: str = "digits", *, memory: int = 40, seed: int = 0, **protocol: Any) -> RunSpec:
    """A run of seconds."""
    return resolve(method, dataset, memory=memory, seed=seed, protocol=FAST | protocol)


class Entry:
    """An entry point of a package that nobody installed; loading it gives the target, or raises it."""

    dist = SimpleNamespace(name="their-package")

    def __init__(self, name: str, target: object) -> None:
        self.name, self.target = name, target

    def load(self) -> object:
        if isinstance(self.target, Exception):
            raise self.target
        return self.target
