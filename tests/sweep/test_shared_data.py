"""What a worker is handed is all that it needs: the data set with its description."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import ray

from emi_bench.data import load, own
from emi_bench.run.loop import run
from emi_bench.run.resolve import resolve
from emi_bench.sweep.executors.ray import shared_data
from tests.data.fakes import image_folder
from tests.synthetic import FAST


def test_a_worker_runs_data_whose_folder_only_the_driver_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "put", pickle.dumps)
    monkeypatch.setattr(ray, "get", pickle.loads)
    folder = image_folder(tmp_path / "birds")
    name, root = f"folder:{folder}", tmp_path / "root"
    spec = resolve("scr", name, memory=12, protocol=FAST | {"n_tasks": 3}, root=root)
    expected = run(spec, load(name, root))
    shipped = shared_data.put(load(name, root))

    for gone in (folder, root):
        shutil.rmtree(gone)
    own._known.clear()
    monkeypatch.setenv("EMI_BENCH_DATA", str(tmp_path / "worker"))
    data = shared_data.get(shipped)
    assert data.info.fingerprint == spec.data_fingerprint
    np.testing.assert_array_equal(run(spec, data).matrix, expected.matrix)
    assert not (tmp_path / "worker").exists()
