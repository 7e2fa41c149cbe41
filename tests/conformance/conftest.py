"""The data of the battery: real digits, few classes, and made-up sets with awkward shapes."""

from __future__ import annotations

import numpy as np
import pytest

from emi_bench.data import DataInfo, DataSet, checked, register
from emi_bench.data.digits import read
from tests.synthetic import register_blobs

LEARN = "digits4"  # four classes of digits, 100 training images each


def _digits4() -> None:
    digits = read()
    train = np.concatenate([np.flatnonzero(digits.y_train == c)[:100] for c in range(4)])
    test = np.flatnonzero(digits.y_test < 4)
    arrays = checked(LEARN, digits.x_train[train], digits.y_train[train], digits.x_test[test], digits.y_test[test])
    data = DataSet.from_arrays(LEARN, arrays)
    size = {"n_train": len(train), "n_test": len(test)}
    info = DataInfo(LEARN, 4, 2, 8, **size, mean=(0.3, 0.3, 0.3), std=(0.37, 0.37, 0.37))
    register(info, lambda root: data)


@pytest.fixture(scope="session", autouse=True)
def registered_data() -> None:
    """`short`: the last batch of a task has one image; `lonely`: one class a task."""
    _digits4()
    register_blobs("short", classes=4, n_tasks=2, per_class=8)
    register_blobs("lonely", classes=3, n_tasks=3, per_class=9)
