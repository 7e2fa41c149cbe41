"""Every recipe of docs/results.md and the tour run on a store's files."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from emi_bench.report.runs import METRIC_COLUMNS
from emi_bench.store.schema import COLUMNS
from tests.report.synthetic import Cell, digits_runs, synthetic_runs
from tests.report.synthetic_store import synthetic_features, write_store

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "results.md").read_text("utf-8")
BLOCKS = re.findall(r"### (.+?)\n.*?```python ?(\w*)\n(.*?)```", DOCS, re.S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """SYNTHETIC runs under `results/`, with a side file that readers must skip."""
    root = tmp_path_factory.mktemp("recipes")
    runs = digits_runs()
    write_store(runs, root / "results")
    (root / "results" / "_features").mkdir()
    synthetic_features(runs["run_id"][0]).to_parquet(root / "results" / "_features" / f"{runs['run_id'][0]}.parquet")
    return root


def printed(code: str, folder: Path) -> str:
    """What a block of code prints where `results/` is."""
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, {"__name__": "__main__"})
    return out.getvalue()


def test_there_are_five_recipes_for_pandas_and_one_each_for_duckdb_and_polars():
    assert [needs for _, needs, _ in BLOCKS] == ["", "", "", "", "", "duckdb", "polars"]


@pytest.mark.parametrize(("title", "needs", "code"), BLOCKS, ids=[b[0][:30] for b in BLOCKS])
def test_a_recipe_runs_as_printed(folder, title, needs, code):
    assert printed(code, folder).strip()


@pytest.mark.parametrize("block", [1, 3, 4, 5, 6], ids=["curve", "matrix", "cost", "duckdb", "polars"])
def test_a_recipe_keeps_data_sets_and_variants_apart(tmp_path, block):
    """The last accuracy of each cell, computed from the synthetic frame itself, is in what the recipe prints."""
    digits = Cell("er", "digits", 5, 50)
    other = replace(digits, variant="other", changes=(("lr", 0.5),), shift=0.2)
    runs = synthetic_runs([digits, other, Cell("er", "cifar100", 10, 50)], range(3))
    write_store(runs, tmp_path / "results")
    out = printed(BLOCKS[block][2], tmp_path)
    if block == 3:  # of the first data set alone: ten tasks, not five
        mean = np.mean(list(runs[runs["dataset"] == "cifar100"]["matrix"]), axis=0)
        assert str(((np.diag(mean) - mean[-1]) * 100).round(1)) in out
        return
    for mean in runs.groupby(["dataset", "variant"])["average_accuracy"].mean():
        assert (f"{mean:.6f}" if block == 4 else f"{100 * mean:.1f}") in out


def test_the_table_keeps_changed_constants_apart_though_they_have_no_name(tmp_path):
    cell = Cell("er", "digits", 5, 50)
    runs = synthetic_runs([cell, replace(cell, changes=(("lr", 0.5),), shift=0.2)], range(3))
    assert set(runs["variant"]) == {""}
    write_store(runs, tmp_path / "results")
    out = printed(BLOCKS[0][2], tmp_path)
    means = runs.groupby(runs["config"].map(lambda c: c["lr"]))["average_accuracy"].mean() * 100
    default, changed = sorted((line for line in out.splitlines() if "{" in line), key=lambda line: "lr" in line)
    assert f"{means[0.1]:.1f}" in default
    assert f"{means[0.5]:.1f}" in changed
    assert "{'lr': 0.5}" in changed
    assert all(" 3 " in line for line in (default, changed))


def test_the_paired_recipe_takes_default_constants_alone(tmp_path):
    er, emi = (Cell(m, "digits", 5, 50) for m in ("er", "emi"))
    runs = synthetic_runs([er, emi, replace(er, changes=(("lr", 0.5),), shift=0.2)], range(3))
    write_store(runs, tmp_path / "results")
    value = runs[[c.count("--set") == 0 for c in runs["command"]]].groupby("method")["average_accuracy"].mean() * 100
    assert f"{value['emi'] - value['er']:+.1f} points" in printed(BLOCKS[2][2], tmp_path)


def test_the_tour_runs(folder):
    words = [sys.executable, str(ROOT / "examples" / "results_tour.py"), "results"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "21 runs" in done.stdout
    assert "emi-bench run --method" in done.stdout


def test_every_column_is_in_the_docs():
    for column in [*COLUMNS, *METRIC_COLUMNS, "matrix", "config", "command"]:
        assert f"`{column}`" in DOCS, column


def test_the_proxys_comparison_of_before_and_after_pairs_by_seed(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "proxy.md").read_text("utf-8"), re.S)
    cells = [Cell("er", "cifar10", 5, 1000), Cell("scr", "cifar10", 5, 1000)]
    before = synthetic_runs(cells, range(5))
    after = before[(before["method"] == "scr") & (before["seed"] < 3)]
    better = [m + 0.02 * (seed + 1) * np.tri(5) for m, seed in zip(after["matrix"], after["seed"], strict=True)]
    write_store(before, tmp_path / "results" / "_before")
    write_store(after.assign(matrix=better), tmp_path / "results" / "_after")
    lines = printed(code, tmp_path).strip().splitlines()
    assert lines[-1].split() == ["scr", "cifar10", "3", "4.0", "2.0"]
