"""`plan`, `sweep --dry-run` and `status`: what is said of an empty and of a partly filled store. No Ray."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from emi_bench.cli import app as cli
from emi_bench.data import load
from emi_bench.errors import UserError
from emi_bench.run.execute import execute
from emi_bench.run.loop import run
from emi_bench.store import Store
from emi_bench.store.leases import Claims
from emi_bench.sweep.check import read_sweep
from emi_bench.sweep.plan import Cell, expand
from tests.sweep.sweeping import sweep_file


def said(*words: str | Path) -> str:
    result = CliRunner().invoke(cli.app, [str(w) for w in words], env={"COLUMNS": "150"})
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def rows(output: str) -> dict[str, list[str]]:
    """The lines of the matrix by their method."""
    return {line.split()[0]: line.split()[1:] for line in output.splitlines() if re.match(r"\w+ +\d+/\d+", line)}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return sweep_file(tmp_path, methods="er, finetune", seeds=2, batch=50)


@pytest.fixture
def filled(file: Path, tmp_path: Path) -> list[Cell]:
    """One run of ER done, the other held by another sweep."""
    cells, _ = expand(*read_sweep(file))
    store = Store(tmp_path / "results")
    execute(cells[0].spec, store, lambda: load("digits"))
    assert Claims(store.files).acquire(cells[1].run_id, owner="another") is not None
    return cells


@pytest.fixture
def no_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr("emi_bench.sweep.resources.cores", lambda: 2)


@pytest.fixture
def two_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    class Properties:
        total_memory = 24e9

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda i: Properties)
    monkeypatch.setattr("emi_bench.sweep.resources.cores", lambda: 8)


@pytest.mark.usefixtures("no_card")
@pytest.mark.parametrize("words", [["plan"], ["sweep", "--dry-run"]], ids=" ".join)
def test_a_plan_of_an_empty_store_counts_and_estimates(words: list[str], file: Path, tmp_path: Path) -> None:
    output = said(*words, file, "--results", tmp_path / "results")
    assert {method: row[0] for method, row in rows(output).items()} == {"er": "0/2", "finetune": "0/2"}
    assert "4 runs: 0 done, 4 to run" in output
    assert re.search(r"about \d+\.\d CPU hours \(counted\)", output)
    told = re.search(r"on this machine, 2 at a time: (\d+) s \(counted\), until \w{3} \d\d:\d\d$", output, re.MULTILINE)
    assert told is not None
    assert int(told[1]) > 12  # with the start of Ray
    assert not (tmp_path / "results").exists()  # a plan starts and makes nothing


@pytest.mark.usefixtures("no_card")
def test_a_plan_of_a_partly_filled_store_tells_done_held_and_measured(
    filled: list[Cell], file: Path, tmp_path: Path
) -> None:
    places = ("--results", tmp_path / "results")
    output = said("plan", file, *places)
    assert {method: row[0] for method, row in rows(output).items()} == {"er": "1/2", "finetune": "0/2"}
    assert "4 runs: 1 done, 1 held by another sweep, 2 to run" in output
    assert "CPU hours (counted)" in output  # finetune, of which nothing is there
    assert said("plan", file, *places, "--only", "method=er", "--seeds", "0").endswith("1 runs: 1 done, 0 to run\n")
    Claims(Store(tmp_path / "results").files).release_all("another")
    assert "(1 of them measured)" in said("plan", file, *places)
    assert "CPU hours (measured)" in said("plan", file, *places, "--only", "method=er")


@pytest.mark.usefixtures("no_card")
def test_a_sweep_begins_with_the_time_that_its_plan_tells_from_what_is_done(tmp_path: Path) -> None:
    file = sweep_file(tmp_path, methods="er, finetune", seeds=1, batch=50, images=20)
    cells, _ = expand(*read_sweep(file))
    (er,) = (c.spec for c in cells if c.spec.method == "er")
    slow = replace(run(er, load("digits", reduction=er.protocol.reduction)), wall_seconds=20_000.0)
    Store(tmp_path / "results").write(slow)
    places = (file, "--results", tmp_path / "results")
    (hours,) = re.findall(r"about (\d+\.\d) CPU hours \(counted\)", said("plan", *places))
    (h, minutes) = re.findall(r"about (\d+) h (\d+) min", said("sweep", *places, "--executor", "inline"))[0]
    assert int(h) + int(minutes) / 60 == pytest.approx(float(hours), abs=0.06)  # of fine-tune, by how slow ER was


@pytest.mark.usefixtures("two_cards")
def test_a_plan_on_cards_tells_gpu_hours_at_the_present_packing(file: Path, tmp_path: Path) -> None:
    file.write_text(file.read_text().replace("{gpu: 0}", "{gpu: 0.5}").replace("digits", "cifar10"))
    output = said("plan", file, "--results", tmp_path / "results")
    assert re.search(r"about \d+\.\d GPU hours \(counted\)", output)
    assert "CPU hours" not in output
    assert "on this machine, 4 at a time: " in output


@pytest.mark.usefixtures("no_card")
def test_a_plan_that_this_machine_cannot_carry_out_says_so(file: Path, tmp_path: Path) -> None:
    file.write_text(file.read_text().replace("{gpu: 0}", "{gpu: 1}"))
    output = said("plan", file, "--results", tmp_path / "results")
    assert "not on this machine: 4 runs ask for 1 CPU, 1 GPU each" in output
    assert "until" not in output


@pytest.mark.usefixtures("two_cards")
def test_hours_to_run_are_the_same_in_plan_and_status(file: Path, tmp_path: Path) -> None:
    file.write_text(
        file.read_text().replace("{gpu: 0}", "{gpu: 0.5}").replace("digits", "cifar10").replace("width: 2", "width: 20")
    )
    (tmp_path / "results").mkdir()
    places = ("--results", tmp_path / "results")
    planned, status = (rows(said(command, file, *places)) for command in ("plan", "status"))
    assert planned == status
    assert float(planned["er"][1]) > 0


def test_status_tells_what_runs_where_and_how_to_go_on(filled: list[Cell], file: Path, tmp_path: Path) -> None:
    output = said("status", file, "--results", tmp_path / "results")
    assert "small: 1/4 done, 1 running, 0 failed, 2 waiting" in output
    whole = said("status", "--results", tmp_path / "results")
    assert "1 done, 1 running, 0 failed" in whole
    Claims(Store(tmp_path / "results").files).release_all("another")
    output = said("status", file, "--results", tmp_path / "results")
    assert f"Go on with: emi-bench sweep {file} --results {tmp_path / 'results'}" in output


def test_status_of_a_part_speaks_of_that_part_and_of_how_to_go_on_with_it(
    filled: list[Cell], file: Path, tmp_path: Path
) -> None:
    part = ("--only", "method=er", "--seeds", "1")
    places = ("--results", tmp_path / "results")
    assert "small: 0/1 done, 1 running, 0 failed, 0 waiting" in said("status", file, *part, *places)
    Claims(Store(tmp_path / "results").files).release_all("another")
    command = shlex.join(map(str, ("emi-bench", "sweep", file, *part, *places)))
    assert f"Go on with: {command}\n" in said("status", file, *part, *places)
    answer = CliRunner().invoke(cli.app, [str(w) for w in ("status", *part, *places)])
    assert isinstance(answer.exception, UserError)
    assert "FILE" in answer.exception.hint


def test_commands_that_only_read_the_store_import_neither_torch_nor_ray(tmp_path: Path) -> None:
    script = f"""
import sys
from typer.testing import CliRunner
from emi_bench.cli.app import app
for words in ("plan --help", "sweep --help", "status --results {tmp_path}", "failures --results {tmp_path}"):
    answer = CliRunner().invoke(app, words.split())
    print(answer.exit_code, sorted({{"torch", "ray", "emi_bench.sweep.driver"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == 4 * "0 []\n"
