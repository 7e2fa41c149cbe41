"""Fixtures for all tests. Imports nothing heavy: xdist's controller, which runs no test, would wait for it."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from emi_bench.run.processor import LIMIT, WITHOUT_AMX, bf16_crashes

os.environ["OMP_NUM_THREADS"] = "1"  # before anyone imports torch, here and in every process that a test starts


gc.disable()  # until everything is imported: nothing of it is garbage


def pytest_collection_finish() -> None:
    """What was imported and collected is looked through no more, however often the collector runs."""
    gc.enable()
    gc.freeze()


def pytest_sessionfinish() -> None:
    gc.unfreeze()  # extension modules complain of what outlives them


def pytest_configure() -> None:
    """Where the processor's matrix units are a lie, tests in bfloat16 do without them; so do the processes of xdist."""
    if bf16_crashes():
        os.environ[LIMIT] = WITHOUT_AMX


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sweeps on a real Ray first: they take longest and wait much, so they are not to be left for the end."""
    items.sort(key=lambda item: not item.nodeid.startswith("tests/sweep/"))


@pytest.fixture
def own_npz(tmp_path: Path) -> Path:
    """A user's own data set: four classes of 8x8 images."""
    import numpy as np

    from tests.synthetic import blobs

    data = blobs("own", 4, 10)
    path = tmp_path / "mine.npz"
    arrays = {"x_train": data.x_train, "x_test": data.x_test}
    images = {k: v.permute(0, 2, 3, 1).contiguous().numpy() for k, v in arrays.items()}
    np.savez(path, **images, y_train=data.y_train.numpy(), y_test=data.y_test.numpy())
    return path
