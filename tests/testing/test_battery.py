"""Every way to break a method is found by one check, in one sentence with file and line; nothing else is harmed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import emi_bench.methods
from emi_bench.cli import app as cli
from emi_bench.methods import load_plugin
from emi_bench.testing import CheckResult, Subject, battery, examine_file, register_check_data
from emi_bench.testing.checks import CHECKS
from emi_bench.testing.failure import TimeOut
from tests.testing.broken import BODY, BROKEN, HEAD, Broken


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a plugin is to be written; no other test sees what it registers."""
    monkeypatch.setattr(emi_bench.methods, "_plugins", {})
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mine.py"


def failures(results: dict[str, list[CheckResult]]) -> list[CheckResult]:
    return [o for checks in results.values() for o in checks if o.status == "failed"]


@pytest.mark.parametrize("broken", BROKEN.values(), ids=[name.replace(" ", "-") for name in BROKEN])
def test_a_broken_plugin_gets_one_message_with_file_and_line(broken: Broken, plugin: Path) -> None:
    plugin.write_text(broken.source)
    checks = [c for c in CHECKS if c.name not in ("learns", "bf16") or broken.check == c.name]  # the longest ones
    found = failures(examine_file(plugin, time_limit=5 if "while True" in broken.source else 120, checks=checks))
    assert [o.check for o in found] == [broken.check], found
    assert broken.says in found[0].message
    assert found[0].where == f"mine.py:{broken.line}"


def test_the_command_prints_the_place_and_ends_with_one(plugin: Path) -> None:
    broken = BROKEN["wrong signature"]
    plugin.write_text(broken.source)
    result = CliRunner().invoke(cli.app, ["check", "mine.py"])
    assert result.exit_code == 1
    assert (
        f"FAILED   signatures   mine.py:{broken.line}: observe(self, x) cannot be called as observe(x, y)"
        in result.output
    )
    assert "1 failed" in result.output


def test_a_file_without_a_method_is_told_what_one_is(plugin: Path) -> None:
    plugin.write_text("x = 1\n")
    (found,) = failures(examine_file(plugin))
    assert "a class that inherits Method" in found.message


def test_an_endless_import_is_ended_and_its_prints_are_caught(plugin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugin.write_text("print('hello')\nwhile True:\n    pass\n")
    (found,) = failures(examine_file(plugin, time_limit=1))
    assert found.where in ("mine.py:2", "mine.py:3")
    assert "no end" in found.message
    assert "hello" not in capsys.readouterr().out


def test_time_in_which_others_have_the_cores_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    began = time.monotonic()
    monkeypatch.setattr(battery, "_kept_waiting", lambda: min(1.0, time.monotonic() - began))  # all of the first second
    with pytest.raises(TimeOut), battery.limited(0.5):
        time.sleep(60)
    assert 1.4 < time.monotonic() - began < 30


def test_a_check_can_be_called_alone(plugin: Path) -> None:
    """As the test that `emi-bench new method` writes does it."""
    plugin.write_text(HEAD + BODY)
    load_plugin(plugin)
    register_check_data()
    next(check for check in CHECKS if check.name == "steps").run(Subject("mine"))


ER = "run --method er --dataset digits --memory 30 --set width=2 --set replay_batch=10 --results r"
ER += " --set train_per_class=20"
AT_RUN = ["syntax error", "wrong signature", "exception in the third task", "infinite loss", "returns strings"]
AT_RUN += ["wrong dtype", "wrong shape of predictions"]


@pytest.mark.parametrize("name", AT_RUN)
def test_a_broken_plugin_harms_no_stored_run(name: str, plugin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`run` itself says where, and leaves what is there as it is."""
    plugin.write_text(BROKEN[name].source)
    CliRunner().invoke(cli.app, ER.split(), catch_exceptions=False)
    stored = {f: f.read_bytes() for f in Path("r").rglob("*.parquet")}
    assert len(stored) == 1
    words = ["emi-bench", *ER.replace("--method er", "--method mine --plugin mine.py").split()]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert {f: f.read_bytes() for f in Path("r").rglob("*.parquet")} == stored


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("exception in the third task", "ZeroDivisionError: division by zero"),
        ("wrong shape of predictions", "predict of mine gives torch.float32 of shape ("),
    ],
)
def test_a_failing_plugin_is_told_by_run_with_file_and_line(
    name: str, says: str, plugin: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = BROKEN[name]
    plugin.write_text(broken.source)
    monkeypatch.setattr("sys.argv", ["emi-bench", *ER.replace("--method er", "--method mine --plugin mine.py").split()])
    with pytest.raises(SystemExit):
        cli.main()
    told = capsys.readouterr().err
    assert f"mine.py:{broken.line}: {says}" in told
    assert "emi-bench check" in told


def test_in_a_sweep_the_other_runs_are_done(plugin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin.write_text(BROKEN["exception in the third task"].source)
    Path("both.yaml").write_text(
        "name: both\nmethods: [mine, er]\nsettings: [{dataset: digits, memory: 30}]\nseeds: 1\nplugins: [mine.py]\n"
        "protocol: {width: 2, train_per_class: 20, replay_batch: 10}\n"
    )
    CliRunner().invoke(cli.app, ["sweep", "both.yaml", "--executor", "inline"])
    assert emi_bench.load_runs("results").method.tolist() == ["er"]
    told = CliRunner().invoke(cli.app, ["failures"]).output
    assert "ZeroDivisionError" in told
    assert f'mine.py", line {BROKEN["exception in the third task"].line}' in told
