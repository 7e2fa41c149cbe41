"""Features are read from wherever the store is."""

from __future__ import annotations

import pandas as pd
import pytest

from emi_bench.store import DamagedFile
from emi_bench.store.beside import feature_reader

FRAME = pd.DataFrame({"split": ["train", "test"], "label": [0, 1], "task": [1, 1], "f0": [0.6, 0.8]})


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_features_are_found_by_the_runs_id(tmp_path, prefix):
    (tmp_path / "_features").mkdir()
    FRAME.to_parquet(tmp_path / "_features" / "abc.parquet")
    read = feature_reader(f"{prefix}{tmp_path}")
    found = read("abc")
    assert found is not None
    pd.testing.assert_frame_equal(found, FRAME)
    assert read("def") is None


def test_a_store_without_features_has_none(tmp_path):
    assert feature_reader(tmp_path / "absent")("abc") is None


def test_damaged_features_are_named_and_left(tmp_path):
    (tmp_path / "_features").mkdir()
    (tmp_path / "_features" / "abc.parquet").write_bytes(b"PAR1 and no more")
    with pytest.warns(DamagedFile, match="abc"):
        assert feature_reader(tmp_path)("abc") is None
    assert (tmp_path / "_features" / "abc.parquet").exists()
