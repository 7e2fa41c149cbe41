"""Sweeps by name: here first, then those of the package; and what is told of them is true."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from emi_bench.cli import app as cli
from emi_bench.errors import UserError
from emi_bench.sweep.asked import Asked
from emi_bench.sweep.grammar import shipped, sweep_path
from tests.test_cli import invoke

ROOT = Path(__file__).parents[2]


def test_the_folder_of_the_checkout_is_the_one_source() -> None:
    assert {f.resolve() for f in shipped().values()} == {f.resolve() for f in (ROOT / "sweeps").glob("*.yaml")}


def test_a_name_is_looked_up_here_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert sweep_path("smoke") == shipped()["smoke"]
    assert Asked(sweep_path("smoke")).told("report") == "emi-bench report smoke"
    invoke("sweeps", "--copy", "smoke")
    assert Path("smoke.yaml").read_bytes() == shipped()["smoke"].read_bytes()
    assert sweep_path("smoke") == Path("smoke.yaml")
    assert Asked(sweep_path("smoke")).told("report") == "emi-bench report smoke.yaml"
    assert Asked(shipped()["smoke"]).told("report") == f"emi-bench report {shipped()['smoke']}"
    with pytest.raises(UserError, match="is here already"):
        invoke("sweeps", "--copy", "smoke")


def test_plan_status_and_report_take_names_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "4 runs: 0 done" in invoke("plan", "smoke")
    assert "emi-bench sweep smoke" in invoke("status", "smoke")
    assert "emi-bench sweep demo" in CliRunner().invoke(cli.app, ["report", "smoke"]).output


def test_sweeps_lists_every_one_with_runs_and_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = invoke("sweeps")
    for name in shipped():
        assert name in told
    assert "1230" in told
    assert "on a GPU" in told
    assert "on a core" in told


def test_an_unknown_name_is_answered_with_the_known_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["plan", "tabel1"], ["sweeps", "--copy", "tabel1"]):
        result = CliRunner().invoke(cli.app, words)
        assert isinstance(result.exception, UserError)
        assert "table1" in result.exception.hint


def test_every_sweep_is_on_the_page_of_sweeps() -> None:
    rows = [line.split("|")[1] for line in (ROOT / "docs" / "sweeps.md").read_text().splitlines() if line[:3] == "| `"]
    assert [name for name in shipped() if not any(f"`{name}`" in row for row in rows)] == []
