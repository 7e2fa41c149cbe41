"""The handwritten digits inside scikit-learn: the data set that is always there."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from emi_bench.data.arrays import Arrays, Labels, checked
from emi_bench.data.dataset import DataSet
from emi_bench.data.info import DIGITS

TRAIN_PER_CLASS = 140


def read() -> Arrays:
    """1797 images of 8x8, pixels 0..16 stretched to 0..255, three equal channels.

    The split is fixed for ever and asks no random generator: of each class, in the order of the file, 140 evenly spaced
    images are for training and the others (34 to 43) for testing. With 140 a class, every task of two classes is 28
    batches of ten; on 8x8 images a last batch of two would leave batch statistics of two values.
    """
    table = _table()
    x = ((table[:, :64].reshape(-1, 8, 8) * 255 + 8) // 16).astype(np.uint8)
    y = table[:, 64]
    test = np.ones(len(y), dtype=bool)
    for c in range(10):
        members = np.flatnonzero(y == c)
        test[members[np.arange(TRAIN_PER_CLASS) * len(members) // TRAIN_PER_CLASS]] = False
    return checked("scikit-learn's digits", x[~test], y[~test], x[test], y[test])


def _table() -> Labels:
    """Rows of 64 pixels and the label, from scikit-learn's file; importing the package costs seconds a process."""
    package = find_spec("sklearn")
    for folder in (package.submodule_search_locations or []) if package else []:
        file = Path(folder) / "datasets" / "data" / "digits.csv.gz"
        if file.is_file():
            return np.loadtxt(file, delimiter=",", dtype=np.int64)
    from sklearn.datasets import load_digits

    digits = load_digits()
    return np.column_stack([digits.data, digits.target]).astype(np.int64)


def load(root: Path, cached: bool = True) -> DataSet:
    """Digits; neither the root nor a cache is needed."""
    return DataSet.from_arrays(DIGITS, read())


def find(root: Path) -> str | None:
    return "inside scikit-learn"
