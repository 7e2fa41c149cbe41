"""The package from Python: a run, a sweep, and folders that can be called."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import emi_bench
from emi_bench.errors import UserError

SMALL = {"width": 2, "batch": 20, "replay_batch": 10, "train_per_class": 20}


def test_a_run_stores_nothing_unless_told_and_is_the_same_either_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = emi_bench.run("er", "digits", memory=30, seed=3, protocol=SMALL, config={"lr": 0.05})
    assert not list(tmp_path.iterdir())
    stored, again = (
        emi_bench.run(
            method="er", dataset="digits", memory=30, seed=3, protocol=SMALL, config={"lr": 0.05}, results="r"
        )
        for _ in range(2)
    )
    for other in (stored, again):
        np.testing.assert_array_equal(other.matrix, result.matrix)
        assert other.path
        assert Path(other.path).is_file()
    assert len(emi_bench.load_runs("r")) == 1
    assert result.average_accuracy == emi_bench.load_runs("r").average_accuracy[0]
    assert isinstance(result, emi_bench.Result)


def test_a_result_shows_itself() -> None:
    spec = emi_bench.run("finetune", "digits", protocol=SMALL).spec
    matrix = np.array([[0.9, np.nan], [0.25, 1.0]])
    result = emi_bench.Result(spec, matrix, path="a<b.parquet")
    page = result._repr_html_()
    assert page.count("<tr>") == 3
    assert "average accuracy <b>62.5 %</b>" in page
    assert "forgetting <b>65.0 %</b>" in page
    assert "a&lt;b.parquet" in page
    assert page.count("background:") == 3
    assert repr(result) == "<Result finetune digits seed 0: average accuracy 62.5 %>"


def test_a_sweep_from_a_dict_a_file_and_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    content = {"name": "m", "methods": ["finetune"], "settings": [{"dataset": "digits", "memory": 10}], "seeds": 2}
    content["protocol"] = SMALL
    runs = emi_bench.sweep(content)
    assert runs.seed.tolist() == [0, 1]
    Path("m.yaml").write_text(str(content))  # JSON is YAML
    assert emi_bench.sweep("m.yaml").run_id.tolist() == runs.run_id.tolist()
    assert emi_bench.sweep("m", seeds="1").seed.tolist() == [1]
    with pytest.raises(UserError, match="no sweep file"):
        emi_bench.sweep("absent")


def test_folders_are_still_folders_whatever_is_imported_first() -> None:
    code = (
        "import sys, emi_bench; assert 'torch' not in sys.modules and 'pandas' not in sys.modules;"
        "import emi_bench.run.loop, emi_bench.sweep.plan; from emi_bench.run.loop import run as loop;"
        "assert callable(emi_bench.run) and callable(emi_bench.sweep) and emi_bench.run.loop.run is loop;"
        "from emi_bench import run; assert run is emi_bench.run"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_callable_folder_tells_its_signature_and_is_pickled_by_name() -> None:
    assert list(inspect.signature(emi_bench.run).parameters)[:4] == ["method", "dataset", "memory", "seed"]
    assert pickle.loads(pickle.dumps(emi_bench.run)) is emi_bench.run
