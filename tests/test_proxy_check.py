"""The guard of the committed proxy: it passes for what is the same, and not for what is not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from benchmarks.proxy_check import Check, again, chosen, distance, main
from emi_bench.data import data_root, load
from emi_bench.data.catalogue import get_source
from emi_bench.run.loop import run
from emi_bench.store import Store, load_runs
from tests.synthetic import spec

PROXY = Path(__file__).parent.parent / "results" / "proxy"
PART: dict[str, Any] = {"image_size": 4, "train_per_class": 20, "test_per_class": 20}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seeds of a proxy of seconds."""
    folder = tmp_path_factory.mktemp("proxy")
    for seed in range(3):
        one = spec("er", seed=seed, **PART)
        Store(folder).write(run(one, load("digits", reduction=one.protocol.reduction)))
    return folder


def test_a_run_that_repeats_is_identical(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--results", str(store), "--dataset", "digits", "--methods", "er"]) == 0
    told = capsys.readouterr()
    assert told.out == "er digits M=40 seed 0: identical\n"  # what is long shows where it is, beside the verdicts
    assert "task 5/5 done  accuracy" in told.err


def test_another_number_is_told_and_ends_with_an_error(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    true = load_runs(store)

    def other(path: str) -> pd.DataFrame:
        return true.assign(matrix=[m - 0.5 for m in true["matrix"]], average_accuracy=true["average_accuracy"] - 0.5)

    monkeypatch.setattr("benchmarks.proxy_check.load_runs", other)
    words = ["--results", str(store), "--dataset", "digits", "--methods", "er"]
    assert main(words) == 1
    assert main([*words, "--loose"]) == 1
    assert "differs (accuracy +50.00" in capsys.readouterr().out


def test_another_torch_is_judged_by_the_spread_over_seeds() -> None:
    def verdict(same: bool, moved: float, far: float = 1.4) -> str:
        return Check("er", same_setup=same, identical=False, moved=moved, spread=0.04, far=far).verdict

    assert verdict(False, 0.03) == "within the spread"
    assert verdict(False, -0.05) == "differs"
    assert verdict(True, 0.001) == "differs"
    assert verdict(False, 0.0, far=2.1) == "differs"  # as accurate on the whole, but of another shape
    assert verdict(False, float("nan")) == verdict(False, 0.0, far=float("nan")) == "differs"


def test_a_matrix_of_another_shape_is_far_though_its_accuracy_is_the_same() -> None:
    rng = np.random.default_rng(0)
    seeds = np.where(np.tri(5, dtype=bool), 0.5 + 0.05 * rng.standard_normal((5, 5, 5)), np.nan)
    again, turned = seeds[1].copy(), seeds[0].copy()
    turned[-1] = turned[-1, ::-1] + np.linspace(-0.4, 0.4, 5)  # forgets the last tasks instead of the first
    assert distance(again, seeds[0], seeds) < 2 < distance(turned, seeds[0], seeds)
    assert abs((turned - seeds[0])[-1].mean()) < 1e-9
    seeds[:, :-1] = np.nan  # a joint method is evaluated once
    assert distance(again, seeds[0], seeds) < 2


def test_the_newest_version_of_a_method_is_the_one_that_is_run_again(store: Path) -> None:
    runs = load_runs(store)
    newer = runs.assign(method_version=runs["method_version"] + 1, run_id="newer-" + runs["run_id"])
    (row, cell), = chosen(pd.concat([runs, newer]), ("er",), 1)  # fmt: skip
    assert row["run_id"].startswith("newer-")
    assert len(cell) == 3


def test_the_same_machine_must_give_the_same_bits_and_another_one_the_same_spread(store: Path) -> None:
    (row, cell), = chosen(load_runs(store), ("er",), 1)  # fmt: skip
    moved = row | {"matrix": row["matrix"] + 1e-9}
    assert again(moved, cell).verdict == "differs"
    assert again(moved, cell, loose=True).verdict == "within the spread"
    elsewhere = row["versions"] | {"processor": "another"}
    assert again(moved | {"versions": elsewhere}, cell).verdict == "within the spread"


def test_a_changed_id_is_an_answer_too(store: Path) -> None:
    (row, cell), = chosen(load_runs(store), ("er",), 1)  # fmt: skip
    assert again(row, cell).identical
    with pytest.raises(SystemExit, match="its id is now"):
        again(row | {"run_id": "0" * 64}, cell)
    with pytest.raises(SystemExit, match="no run of mir"):
        chosen(load_runs(store), ("mir",), 0)


@pytest.mark.skipif(not PROXY.exists(), reason="no committed proxy")
def test_the_committed_proxies_name_no_place_of_the_machine_that_made_them() -> None:
    files = sorted(f for store in (PROXY, PROXY.with_name("proxy8")) for f in store.rglob("*.parquet"))
    assert len(files) > 200
    for file in files:
        told = pq.read_schema(file).metadata[b"emi_bench"].decode()
        assert not re.search(r"""["' =:]/\w""", told)
        assert "--data-root" not in told
        assert not np.isnan(pq.read_table(file)["accuracy"].to_numpy()).any()


@pytest.mark.slow
@pytest.mark.skipif(not PROXY.exists(), reason="no committed proxy")
@pytest.mark.skipif(get_source("cifar10").find(data_root(None)) is None, reason="CIFAR-10 is not in the data root")
def test_the_committed_proxy_repeats() -> None:
    assert main(["--results", str(PROXY)]) == 0
