"""Whatever the program and its pages tell a user to type is taken by the program."""

from __future__ import annotations

import html
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from emi_bench import load_runs
from emi_bench.cli import app as cli
from emi_bench.data.cifar import CIFAR10
from emi_bench.errors import UserError
from emi_bench.run.resolve import resolve
from emi_bench.sweep import driver
from emi_bench.sweep.asked import Asked
from emi_bench.sweep.check import read_sweep

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/*"), ROOT / "Makefile"]
SOURCES = [*ROOT.glob("emi_bench/**/*.py"), *ROOT.glob("emi_bench/**/*.j2")]
IN_QUOTES = re.compile(r"(?:`|<code>)(emi-bench [^`<\n]*)(?:`|</code>)")
ON_A_LINE = re.compile(r"^(?:#|-|\$\(BIN\)/|\w+\$|\s)*(emi-bench [a-z].*)$", re.MULTILINE)


def parsed(command: str) -> tuple[str, dict[str, Any]]:
    """The command's name and what the program understands by its words. Starts nothing; raises what a user would see.

    >>> parsed("emi-bench data download cifar10")
    ('data download', {'name': 'cifar10', 'data_root': None})
    """
    found: Any = typer.main.get_command(cli.app)
    program, *words = shlex.split(command, comments=True)
    assert program == "emi-bench"
    context, names = None, []
    while hasattr(found, "resolve_command"):
        context = found.make_context(program, list(words), parent=context)
        name, found, words = found.resolve_command(context, words)
        names.append(name)
    return " ".join(names), dict(found.make_context(names[-1], list(words), parent=context).params)


def told(files: list[Path]) -> list[str]:
    """Commands in backticks, in code tags and on lines of their own, as far as they are whole."""
    commands = []
    for file in files:
        text = html.unescape(file.read_text("utf-8"))
        commands += IN_QUOTES.findall(text)
        if file.suffix != ".py":
            commands += [re.split(r"`|  +|\"$", line)[0] for line in ON_A_LINE.findall(text)]
    whole = (c.replace("\\|", "|") for c in commands if not re.search(r"…|\.\.\.|\{|\\$|\$@", c))
    return sorted({c.replace("[FILE]", "FILE") for c in whole if "--help" not in c})


@pytest.mark.parametrize("command", told([*PAGES, *SOURCES]))
def test_a_command_in_the_pages_or_in_a_message_exists(command: str) -> None:
    if len(command.split()) > 2:
        parsed(command)
    else:  # named, not to be typed as it stands
        assert command.split()[1] in typer.main.get_command(cli.app).commands


def test_the_commands_of_the_pages_are_found() -> None:
    found = told([*PAGES, *SOURCES])
    assert len(found) > 20
    assert "emi-bench sweep sweeps/table1.yaml" in found


FULL = Asked(Path("my sweep.yaml"), "s3://bucket/my results", Path("/data root"), plugins=[Path("own one.py")])
TYPED = """emi-bench sweep 'my sweep.yaml' --results 's3://bucket/my results' --only 'method=er|emi' --seeds 0-2
--limit 7 --max-concurrent 3 --address auto --autoscaling --fail-fast --log mlflow --claim-seconds 9 --patience 4"""


def test_the_command_to_go_on_is_the_one_that_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[Asked] = []
    monkeypatch.setattr(driver, "run_sweep", lambda console, asked: got.append(asked) or 0)
    answer = CliRunner().invoke(cli.app, shlex.split(TYPED)[1:])
    assert answer.exit_code == 0, answer.output
    assert parsed(got[0].again()) == parsed(TYPED)
    assert (got[0].claim_seconds, got[0].patience, got[0].limit) == (9.0, 4.0, 7)


def test_a_command_that_was_not_typed_is_told_with_the_places_of_its_sweep() -> None:
    assert Asked(Path("a.yaml")).again() == "emi-bench sweep a.yaml"
    assert parsed(FULL.again())[1]["results"] == FULL.results


@pytest.mark.parametrize("command", ["report", "status", "plan"])
def test_other_commands_are_told_with_the_places_of_the_sweep(command: str) -> None:
    name, params = parsed(FULL.told(command))
    assert name == command
    places = {key: params[key] for key in ("results", "data_root", "plugin")}
    assert places == {"results": FULL.results, "data_root": FULL.data_root, "plugin": FULL.plugins}


def test_the_command_for_tracebacks_carries_the_place_of_the_results() -> None:
    name, params = parsed(FULL.failures())
    assert (name, params["results"]) == ("failures", FULL.results)


def test_the_command_of_a_run_carries_places_and_device() -> None:
    spec = resolve("er", "digits", memory=30, seed=2, config={"lr": 0.05}, features=True)
    command = spec.command(results="my results", data_root=Path("/data root"), device="cpu", threads=2)
    name, params = parsed(command)
    assert name == "run"
    assert {k: params[k] for k in ("results", "data_root", "device", "threads", "features")} == {
        "results": "my results",
        "data_root": Path("/data root"),
        "device": "cpu",
        "threads": 2,
        "features": True,
    }
    assert "--results" not in spec.command()


def test_an_interrupted_run_goes_on_with_the_printed_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in the default places, and with the device and features that were asked for."""
    from emi_bench.cli import single

    results, root = tmp_path / "my results", tmp_path / "data"
    words = ["run", "--method", "finetune", "--dataset", "digits", "--results", str(results), "--data-root", str(root)]
    words += ["--device", "cpu", "--features", "--set", "width=2", "--set", "train_per_class=20"]
    update = single.Bar.update

    def interrupted(bar: single.Bar, at: Any) -> None:
        update(bar, at)
        if at.phase == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(single.Bar, "update", interrupted)
        first = CliRunner().invoke(cli.app, words)
    assert first.exit_code == 130
    command = first.output[first.output.index("  emi-bench run") :].strip()
    assert "\n" not in command
    _, params = parsed(command)
    assert (params["data_root"], params["device"], params["features"]) == (root, "cpu", True)
    second = CliRunner().invoke(cli.app, shlex.split(command)[1:])
    assert second.exit_code == 0, second.output
    assert "going on after 2 finished tasks" in second.output
    assert len(load_runs(results)) == 1
    assert list((results / "_features").iterdir())


def test_missing_data_is_fetched_to_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        CIFAR10.load(tmp_path / "my data", True)
    command = re.search(r"emi-bench data .*", caught.value.hint)
    assert command is not None
    assert parsed(command[0]) == ("data download", {"name": "cifar10", "data_root": tmp_path / "my data"})


def test_every_command_that_is_said_to_take_plugins_takes_them() -> None:
    page = (ROOT / "docs" / "own-method.md").read_text("utf-8")
    sentence = page[page.index("give the file to") : page.index("with `--plugin`")]
    names = re.findall(r"`([a-z ]+)`", " ".join(sentence.split()))
    assert len(names) == 9
    needs = {"run": " --method er --dataset digits", "sweep": " a.yaml", "plan": " a.yaml"}
    needs |= dict.fromkeys(("data verify", "data inspect"), " digits")
    for name in names:
        assert parsed(f"emi-bench {name}{needs.get(name, '')} --plugin a.py")[1]["plugin"] == [Path("a.py")]


def test_a_plugins_data_set_is_listed_and_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from emi_bench.data import catalogue

    monkeypatch.setattr(catalogue, "_registered", {})
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import replace\n"
        "from emi_bench.data import digits, register\n"
        "from emi_bench.data.info import DIGITS\n"
        "mine = replace(DIGITS, name='mine')\n"
        "register(mine, lambda root: replace(digits.load(root, False), info=mine))\n"
    )
    for words in (["datasets"], ["data", "verify", "mine"]):
        result = CliRunner().invoke(cli.app, [*words, "--plugin", str(file)])
        assert result.exit_code == 0, (result.output, result.exception)
        assert "mine" in result.output


@pytest.mark.parametrize("file", ["README.md", "deploy/ray-cluster.yaml"])
def test_whoever_is_told_to_run_the_grid_is_told_to_fetch_all_its_data(file: str) -> None:
    sweep, _ = read_sweep(ROOT / "sweeps" / "table1.yaml")
    fetched = re.findall(r"emi-bench data download (\w+)", (ROOT / file).read_text("utf-8"))
    assert set(fetched) == {setting.dataset for setting in sweep.settings}
