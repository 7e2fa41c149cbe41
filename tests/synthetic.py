"""Small made-up data sets and runs, for tests of everything but learning."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from emi_bench.data import DataInfo, DataSet, load, register
from emi_bench.data.reduce import Reduction
from emi_bench.run.resolve import resolve
from emi_bench.run.spec import RunSpec
from emi_bench.testing import blobs

FAST = {"width": 2, "batch": 10, "replay_batch": 10}
FEW = {"train_per_class": 20, "test_per_class": 10}  #: of digits, unless a test asks for another number


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
    """A run of half a second: four steps a task."""
    small = FAST | FEW if dataset == "digits" else FAST
    return resolve(method, dataset, memory=memory, seed=seed, protocol=small | protocol)


def few_digits() -> DataSet:
    """What a `spec` of digits asks for."""
    return load("digits", reduction=Reduction(**FEW))


class Entry:
    """An entry point of a package that nobody installed; loading it gives the target, or raises it."""

    dist = SimpleNamespace(name="their-package")

    def __init__(self, name: str, target: object) -> None:
        self.name, self.target = name, target

    def load(self) -> object:
        if isinstance(self.target, Exception):
            raise self.target
        return self.target
