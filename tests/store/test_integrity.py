"""A damaged result gives no number: either it is refused, or it gives what was written."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import emi_bench
from emi_bench.cli.app import app
from emi_bench.store import DamagedFile, Store
from emi_bench.store.beside import feature_reader
from emi_bench.store.reading import NewerSchema, Unreadable, parse
from emi_bench.store.schema import CHECKSUM
from tests.store.test_store import made_up


def flipped(content: bytes, n: int) -> list[bytes]:
    """The content with one bit changed, n times elsewhere."""
    bits = np.random.default_rng(0).choice(8 * len(content), n, replace=False).tolist()
    return [content[: b // 8] + bytes([content[b // 8] ^ 1 << b % 8]) + content[b // 8 + 1 :] for b in bits]


@pytest.mark.parametrize("columns", [None, []], ids=["load_results", "load_runs"])
def test_no_changed_bit_of_a_result_changes_a_number(tmp_path: Path, columns: list[str] | None) -> None:
    content = Path(Store(tmp_path).write(made_up())).read_bytes()
    whole = parse(content, columns)
    refused = 0
    for damaged in flipped(content, 1500):
        try:
            found = parse(damaged, columns)
        except (Unreadable, NewerSchema):
            refused += 1
            continue
        assert found.told == whole.told
        assert found.table.equals(whole.table)
    assert refused > 500  # the others hit what nobody reads: statistics, and who wrote the file


def test_a_result_without_checksums_still_loads(tmp_path: Path) -> None:
    path = Path(Store(tmp_path).write(made_up()))
    before = emi_bench.load_runs(tmp_path)
    table = pq.read_table(path)
    metadata = {k: v for k, v in table.schema.metadata.items() if k != CHECKSUM}
    pq.write_table(table.replace_schema_metadata(metadata), path)
    pd.testing.assert_frame_equal(emi_bench.load_runs(tmp_path), before)


def test_no_changed_bit_of_features_changes_one(tmp_path: Path) -> None:
    from emi_bench.run.result import FeatureTable

    rng = np.random.default_rng(0)
    table = FeatureTable(
        np.array(["test"] * 40), np.arange(40) % 10, np.arange(40) % 5 + 1, rng.normal(size=(40, 6)).astype(np.float32)
    )
    result = made_up(features=table)
    Store(tmp_path).write(result)
    path = tmp_path / "_features" / f"{result.spec.run_id}.parquet"
    content = path.read_bytes()
    whole = feature_reader(tmp_path)(result.spec.run_id)
    assert whole is not None
    refused = 0
    for damaged in flipped(content, 300):
        path.write_bytes(damaged)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DamagedFile)
            found = feature_reader(tmp_path)(result.spec.run_id)
        if found is None:
            refused += 1
        else:
            pd.testing.assert_frame_equal(found, whole)
    assert refused > 100


def test_damaged_results_are_found_and_set_aside_for_the_next_sweep(tmp_path: Path) -> None:
    store = Store(tmp_path)
    paths = [Path(store.write(made_up(seed))) for seed in range(3)]
    content = bytearray(paths[1].read_bytes())
    content[60:80] = bytes(20)
    paths[1].write_bytes(content)
    assert store.done(made_up(1).spec)  # a look at its end says nothing of its middle
    arguments = ["clean", "--damaged", "--results", str(tmp_path)]
    told = CliRunner().invoke(app, [*arguments, "--dry-run"])
    assert "1 damaged" in told.output
    assert paths[1].exists()
    with pytest.warns(DamagedFile, match="_damaged"):
        assert CliRunner().invoke(app, arguments).exit_code == 0
    assert [p.exists() for p in paths] == [True, False, True]
    assert not Store(tmp_path).done(made_up(1).spec)
