"""The store: written once and whole, readable by pandas, and calm about damage."""

from __future__ import annotations

import errno
import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import emi_bench
from emi_bench import metrics
from emi_bench.errors import UserError
from emi_bench.run.result import FeatureTable, RunResult
from emi_bench.store import DamagedFile, Store, frames
from emi_bench.store.files import Files
from emi_bench.store.reading import NewerSchema
from emi_bench.store.schema import COLUMNS, SCHEMA_VERSION
from tests.synthetic import spec

OLD = Path(__file__).parent / "files"


def made_up(seed: int = 0, method: str = "er", **changes: Any) -> RunResult:
    """A result nobody ran."""
    rng = np.random.default_rng(seed)
    matrix = np.where(np.tril(np.ones((5, 5), bool)), rng.uniform(size=(5, 5)).round(3), np.nan)
    values: dict[str, Any] = {
        "spec": spec(method, seed=seed),
        "matrix": matrix,
        "n_test": [70, 71, 72, 73, 74],
        "class_order": list(range(10)),
        "data_fingerprint": "a:b",
        "losses": [{"ce_stream": 1.0}] * 5,
        "ms_per_batch": 12.5,
        "peak_memory_bytes": 10**9,
        "n_params": 1234,
        "wall_seconds": 3.5,
        "started": "2026-01-01T00:00:00+00:00",
        "finished": "2026-01-01T00:00:04+00:00",
        "device": "cpu",
        "threads": 1,
    }
    return RunResult(**(values | changes))


def test_a_result_comes_back_as_a_tidy_frame(tmp_path: Path) -> None:
    result = made_up()
    path = Store(tmp_path).write(result)
    assert path.endswith(f"digits/er/m40-s0-{result.spec.run_id}.parquet")
    frame = emi_bench.load_results(tmp_path)
    assert set(frame.columns) == {*COLUMNS, "cell_id"}
    assert len(frame) == 15
    row = frame[(frame.after_task == 3) & (frame.task == 2)].iloc[0]
    assert row.accuracy == result.matrix[2, 1]
    assert (row.n_test, row.memory, row.seed, row.schema_version) == (71, 40, 0, SCHEMA_VERSION)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path)[list(COLUMNS)], frame[list(COLUMNS)], check_dtype=False)


def test_runs_carry_metrics_matrix_and_provenance(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for seed in range(3):
        store.write(made_up(seed))
    runs = emi_bench.load_runs(tmp_path)
    assert runs.seed.tolist() == [0, 1, 2]
    expected = made_up(1)
    one = runs.iloc[1]
    np.testing.assert_array_equal(one.matrix, expected.matrix)
    for name, value in metrics.all_metrics(expected.matrix).items():
        assert one[name] == pytest.approx(value)
    assert one.config == expected.spec.config
    assert one.command == expected.spec.command()
    assert one.class_order == list(range(10))
    assert {"emi-bench", "torch", "python"} <= one.versions.keys()


def test_offline_stores_only_its_last_row(tmp_path: Path) -> None:
    matrix = np.full((5, 5), np.nan)
    matrix[-1] = 0.5
    Store(tmp_path).write(made_up(method="offline", matrix=matrix))
    assert emi_bench.load_results(tmp_path).after_task.unique().tolist() == [5]
    assert np.isnan(emi_bench.load_runs(tmp_path).forgetting[0])


def test_pandas_reads_the_folder_while_other_things_lie_in_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(made_up())
    store.put(f"_checkpoints/{'ab' * 32}.pt", b"a checkpoint")
    (tmp_path / "_README.md").write_text("what lies here")
    (tmp_path / "digits" / "er" / "_half.tmp").write_bytes(b"PAR1")
    assert len(pd.read_parquet(tmp_path)) == 15


def test_an_empty_store_gives_empty_frames_with_all_columns(tmp_path: Path) -> None:
    assert set(emi_bench.load_results(tmp_path / "nothing").columns) == {*COLUMNS, "cell_id"}
    runs = emi_bench.load_runs(tmp_path / "nothing")
    assert {"average_accuracy", "matrix", "config", "command", "cell_id", "changed"} <= set(runs.columns)
    assert runs.empty


def test_the_same_run_under_another_variant_is_found_and_not_doubled(tmp_path: Path) -> None:
    store, result = Store(tmp_path), made_up()
    store.write(result)
    named = made_up(spec=result.spec.model_copy(update={"variant": "default"}))
    assert store.done(named.spec)
    store.write(named)
    assert len(store.results()) == 1


@pytest.mark.parametrize("name", ["", "other"], ids=["by its name", "by a variant's"])
def test_a_file_cut_in_half_is_named_counts_as_missing_and_goes_only_for_its_successor(
    tmp_path: Path, name: str
) -> None:
    store = Store(tmp_path)
    whole, half = made_up(0), made_up(1, spec=spec("er", seed=1).model_copy(update={"variant": name}))
    store.write(whole)
    path = Path(store.write(half))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    store = Store(tmp_path)
    with pytest.warns(DamagedFile, match=f"{half.spec.run_id}.*cut short.*does it again"):
        assert list(store.results()) == [whole.spec.run_id]
    with warnings.catch_warnings():  # it is named once, however often it is met
        warnings.simplefilter("error")
        assert not store.done(half.spec.model_copy(update={"variant": ""}))
        assert len(store.results()) == 1
    assert store.done(whole.spec)
    with pytest.warns(DamagedFile):
        assert len(emi_bench.load_runs(tmp_path)) == 1
    assert path.exists()
    with pytest.warns(DamagedFile, match="_damaged"):
        store.write(made_up(1))
    assert len(list((tmp_path / "_damaged").iterdir())) == 1
    assert len(emi_bench.load_runs(tmp_path)) == 2


def test_a_file_that_only_looks_whole_is_named_and_left_when_read(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = Path(store.write(made_up()))
    content = path.read_bytes()
    path.write_bytes(content[:40] + b"\0" * (len(content) - 80) + content[-40:])
    for load in (emi_bench.load_results, emi_bench.load_runs):
        with pytest.warns(DamagedFile, match=r"is left out: .*clean --damaged"):
            assert load(tmp_path).empty
    assert path.exists()
    assert not (tmp_path / "_damaged").exists()


def test_an_error_of_our_own_code_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(Store(tmp_path).write(made_up()))
    monkeypatch.setattr(frames, "TOLD", [*frames.TOLD, "a_key_too_many"])
    with pytest.raises(KeyError, match="a_key_too_many"):
        emi_bench.load_runs(tmp_path)
    assert path.exists()


def test_a_foreign_parquet_file_is_not_a_result(tmp_path: Path) -> None:
    store, result = Store(tmp_path), made_up()
    path = tmp_path / store.path(result.spec)
    path.parent.mkdir(parents=True)
    pd.DataFrame({"a": [1]}).to_parquet(path)
    with pytest.warns(DamagedFile, match="provenance"):
        assert emi_bench.load_runs(tmp_path).empty
    assert path.exists()


def test_a_result_of_a_newer_program_is_left_out_and_left_alone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = Path(store.write(made_up()))
    table = pq.read_table(path)
    told = table.schema.metadata[b"emi_bench"].replace(b'"schema_version": 1', b'"schema_version": 99')
    pq.write_table(table.replace_schema_metadata({b"emi_bench": told}), path)
    with pytest.warns(NewerSchema, match="update emi-bench"):
        assert emi_bench.load_results(tmp_path).empty
    assert path.exists()
    assert store.done(made_up().spec)


def test_rows_of_tasks_that_the_run_does_not_have_are_damage(tmp_path: Path) -> None:
    path = Path(Store(tmp_path).write(made_up()))
    table = pq.read_table(path)
    told = json.loads(table.schema.metadata[b"emi_bench"])
    told["spec"]["protocol"]["n_tasks"] = 1
    pq.write_table(table.replace_schema_metadata({b"emi_bench": json.dumps(told).encode()}), path)
    with pytest.warns(DamagedFile, match="out of bounds"):
        assert emi_bench.load_runs(tmp_path).empty


def test_a_store_that_cannot_be_read_for_a_moment_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(Store(tmp_path).write(made_up()))

    def broken(self: Files, path: str) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Files, "read", broken)
        with pytest.raises(OSError, match="Input/output"):
            emi_bench.load_runs(tmp_path)
    assert path.exists()
    assert len(emi_bench.load_runs(tmp_path)) == 1


def test_a_result_is_written_once(tmp_path: Path) -> None:
    store, result = Store(tmp_path), made_up()
    path = Path(store.write(result))
    before = path.read_bytes()
    table = FeatureTable(np.array(["test"]), np.array([1]), np.array([1]), np.ones((1, 3), np.float32))
    again = made_up(spec=result.spec.model_copy(update={"features": True}), features=table, wall_seconds=99.0)
    assert Path(store.write(again)) == path
    assert path.read_bytes() == before
    assert store.done(again.spec)


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
def test_old_files_keep_loading(version: int, tmp_path: Path) -> None:
    shutil.copytree(OLD / f"schema{version}", tmp_path / "results")
    runs = emi_bench.load_runs(tmp_path / "results")
    assert runs.average_accuracy.round(4).tolist() == [0.417]
    assert len(emi_bench.load_results(tmp_path / "results")) == 15


def test_a_full_disk_leaves_nothing_half_written_and_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, result = Store(tmp_path), made_up()
    monkeypatch.setattr("emi_bench.store.files.os.fsync", _no_space)
    with pytest.raises(UserError, match="the disk is full") as caught:
        store.write(result)
    assert "same command" in caught.value.hint
    assert not store.done(result.spec)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def _no_space(fd: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_an_unwritable_place_is_refused_before_work_starts(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(UserError, match="cannot write results") as caught:
        Files(blocked / "results").check_writable()
    assert "--results" in caught.value.hint


def test_a_run_that_wants_features_is_done_only_with_them(tmp_path: Path) -> None:
    store, result = Store(tmp_path), made_up()
    store.write(result)
    wanted = result.spec.model_copy(update={"features": True})
    assert store.done(result.spec)
    assert not store.done(wanted)
    table = FeatureTable(np.array(["test"]), np.array([1]), np.array([1]), np.ones((1, 3), np.float32))
    store.write(made_up(spec=wanted, features=table))
    assert store.done(wanted)
    frame = pd.read_parquet(tmp_path / "_features" / f"{wanted.run_id}.parquet")
    assert list(frame.columns) == ["split", "label", "task", "f0", "f1", "f2"]


def test_a_file_address_is_a_folder_and_an_unknown_scheme_is_refused(tmp_path: Path) -> None:
    Store(f"file://{tmp_path}/there").write(made_up())
    assert len(emi_bench.load_runs(tmp_path / "there")) == 1
    with pytest.raises(UserError, match="cannot open"):
        Store("ftp://somewhere/results")
