"""What `emi-bench new` writes works as it is."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

import emi_bench.methods
from emi_bench.errors import UserError
from emi_bench.sweep.check import read_sweep
from emi_bench.testing import CHECKS
from tests.test_cli import invoke


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emi_bench.methods, "_plugins", {})
    monkeypatch.chdir(tmp_path)


def test_a_new_method_is_short_and_passes_every_check_and_the_command_says_so_for_ci() -> None:
    assert "emi-bench check my_idea.py" in invoke("new", "method", "my_idea")
    text = Path("my_idea.py").read_text()
    assert len(text.splitlines()) < 60
    assert max(map(len, text.splitlines())) <= 120
    (row,) = json.loads(invoke("check", "my_idea.py", "--json"))
    assert (row["method"], row["ok"]) == ("my_idea", True)
    assert {c["check"] for c in row["checks"]} == {c.name for c in CHECKS} | {"quiet"}


def test_its_generated_test_passes() -> None:
    """Called as pytest would call it; the checks themselves pass above."""
    invoke("new", "method", "my_idea")
    test_promise = runpy.run_path("test_my_idea.py")["test_promise"]
    (mark,) = test_promise.pytestmark
    assert (mark.name, mark.args) == ("parametrize", ("check", CHECKS))
    for check in CHECKS:
        if check.name in ("signatures", "steps", "memory"):
            test_promise(check)


def test_a_new_sweep_names_the_method_of_the_folder_beside_three_baselines() -> None:
    invoke("new", "method", "my_idea")
    invoke("new", "sweep")
    sweep, _ = read_sweep(Path("sweep_my_idea.yaml"))
    assert [m.name for m in sweep.methods] == ["er", "scr", "pcr", "my_idea"]
    assert "8 runs: 0 done" in invoke("plan", "sweep_my_idea")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["method", "er"], "er is a method of emi-bench"),
        (["method", "My-Idea"], "cannot be a method's name"),
        (["method", "class"], "cannot be a method's name"),
        (["sweep"], "which method"),
        (["sweep", "absent"], "there is no absent.py here"),
    ],
)
def test_what_cannot_be_is_said(words: list[str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        invoke("new", *words)
    assert not list(Path().iterdir())


def test_nothing_is_overwritten() -> None:
    Path("test_my_idea.py").write_text("mine")
    with pytest.raises(UserError, match="is here already"):
        invoke("new", "method", "my_idea")
    assert [f.name for f in Path().iterdir()] == ["test_my_idea.py"]
