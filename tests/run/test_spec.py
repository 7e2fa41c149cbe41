"""A run's identity, and what is refused before any work starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from emi_bench.cli.single import parse_settings
from emi_bench.errors import UserError
from emi_bench.methods import get_method, load_plugin, method_names
from emi_bench.run.resolve import resolve
from emi_bench.run.spec import FIRST_FIELDS, Protocol, RunSpec
from emi_bench.store import load_runs

STORED = Path(__file__).parents[2] / "results" / "digits"


def test_the_id_is_stable() -> None:
    """A changed id would orphan every stored result: raise a method's version, do not change this by accident."""
    one = resolve("er", "cifar10", memory=1000, seed=0)
    assert one.run_id == "8a2fe2635c2ec53848797f71b2307f2bfddee556487c7409cda16d575c832c38"


def test_a_stored_run_keeps_its_id_when_fields_are_added() -> None:
    """A field that version 0.1.0 did not have is part of an id only where it is not at its default."""
    stored = load_runs(STORED / "er").query("seed == 0").iloc[0]
    assert stored["run_id"] == "87933966c8e5199b6a532ce83d63ce017b0f5e2a479fccdb9da45f52ab486855"
    known = {"memory": int(stored["memory"]), "config": stored["config"], "protocol": stored["protocol"]}
    assert resolve("er", "digits", **known).run_id == stored["run_id"]
    later = Protocol.model_fields.keys() - FIRST_FIELDS
    assert later >= {"image_size", "train_per_class", "test_per_class", "last_batch", "eval_window"}
    assert not later & resolve("er", "digits", **known).identity()["protocol"].keys()
    part = resolve("er", "digits", **(known | {"protocol": stored["protocol"] | {"train_per_class": 70}}))
    assert part.run_id != stored["run_id"]
    assert part.identity()["protocol"]["train_per_class"] == 70


def test_defaults_spelled_out_are_the_same_run() -> None:
    plain = resolve("er", "cifar10", memory=200, seed=3)
    spelled = resolve("er", "cifar10", memory=200, seed=3, config={"lr": 0.1}, protocol={"n_tasks": 5, "batch": 10})
    assert plain.run_id == spelled.run_id


def test_names_for_people_do_not_enter_the_id() -> None:
    plain = resolve("er", "cifar10", memory=200)
    named = resolve("er", "cifar10", memory=200, variant="paper", features=True)
    assert plain.run_id == named.run_id


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"memory": 201},
        {"config": {"lr": 0.2}},
        {"protocol": {"precision": "bf16"}},
        {"dataset": "cifar100"},
    ],
)
def test_whatever_changes_the_result_changes_the_id(change: dict[str, Any]) -> None:
    base: dict[str, Any] = {"method": "er", "dataset": "cifar10", "memory": 200}
    assert resolve(**base).run_id != resolve(**(base | change)).run_id


def test_a_method_without_memory_is_one_run_for_all_memory_sizes() -> None:
    assert resolve("finetune", "cifar10", memory=200).run_id == resolve("finetune", "cifar10", memory=1000).run_id


def test_the_methods_version_is_part_of_the_id(monkeypatch: pytest.MonkeyPatch) -> None:
    before = resolve("er", "cifar10", memory=200).run_id
    monkeypatch.setattr(get_method("er"), "version", 99)
    assert resolve("er", "cifar10", memory=200).run_id != before


@pytest.mark.parametrize(
    ("arguments", "says", "hint"),
    [
        ({"method": "erm"}, "unknown method 'erm'", "Did you mean er"),
        ({"method": "mine"}, "unknown method 'mine'", "with --plugin FILE.py"),
        ({"dataset": "cifar1"}, "unknown data set 'cifar1'", "cifar10"),
        ({"memory": 0}, "er needs a memory", "--memory"),
        ({"memory": -3}, "negative", "--memory"),
        ({"memory": 9}, "memory 9 is smaller than the 10 classes", "10 or more"),
        ({"seed": -1}, "seed -1", "seeds"),
        ({"config": {"learning_rate": 1}}, "no key 'learning_rate'", "Known:"),
        ({"config": {"lr": "fast"}}, "lr", "Learning rate"),
        ({"protocol": {"n_tasks": 3}}, "do not split into 3 equal tasks", "1, 2, 5, 10"),
        ({"protocol": {"widht": 3}}, "no key 'widht'", "width"),
        ({"protocol": {"batch": 0}}, "batch", "Stream samples"),
    ],
)
def test_bad_input_is_refused_with_what_to_do(arguments: dict[str, Any], says: str, hint: str) -> None:
    good: dict[str, Any] = {"method": "er", "dataset": "cifar10", "memory": 200}
    with pytest.raises(UserError) as caught:
        resolve(**(good | arguments))
    assert says in caught.value.message
    assert hint in caught.value.hint


def test_own_data_without_a_number_of_tasks_is_asked_for_it(own_npz: Path) -> None:
    with pytest.raises(UserError, match="into how many tasks"):
        resolve("er", f"npz:{own_npz}", memory=20)


def test_own_data_is_identified_by_content_not_by_place(own_npz: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / own_npz.name
    moved.parent.mkdir()
    moved.write_bytes(own_npz.read_bytes())
    one = resolve("er", f"npz:{own_npz}", memory=20, protocol={"n_tasks": 2})
    other = resolve("er", f"npz:{moved}", memory=20, protocol={"n_tasks": 2})
    assert one.run_id == other.run_id
    assert str(tmp_path) not in str(one.identity())


def again(command: str, root: Path | None = None) -> RunSpec:
    """The spec of a printed rerun command."""
    import shlex

    words = shlex.split(command)[2:]
    pairs = list(zip(words[::2], words[1::2], strict=True))
    options = {k.removeprefix("--"): v for k, v in pairs if k != "--set"}
    config, protocol = parse_settings(options["method"], [v for k, v in pairs if k == "--set"])
    numbers = {"memory": int(options.get("memory", 0)), "seed": int(options["seed"])}
    return resolve(options["method"], options["dataset"], **numbers, config=config, protocol=protocol)


@pytest.mark.parametrize("name", method_names())
def test_the_rerun_command_is_the_same_run(name: str) -> None:
    protocol = {"width": 8, "precision": "bf16", "reservoir": "textbook", "image_size": 4, "train_per_class": 70}
    if name == "mose":
        del protocol["image_size"]  # its experts halve an image three times
    one = resolve(name, "digits", memory=50, seed=4, config={"lr": 0.03, "betas": (0.8, 0.9)}, protocol=protocol)
    assert again(one.command()).run_id == one.run_id


def test_a_plugin_adds_a_method_in_one_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    body = "    name, title, version = 'mine', 'Mine', 2"
    file.write_text(f"from emi_bench.methods.er import ER\n\n\nclass Mine(ER):\n{body}\n")
    assert load_plugin(file) == ["mine"]
    mine = resolve("mine", "cifar10", memory=200)
    assert mine.method_version == 2
    assert f"--plugin {file}" in mine.command()


@pytest.mark.parametrize("content", ["raise RuntimeError('no')", "import not_a_module_at_all", "def broken(:"])
def test_a_plugin_that_does_not_import_says_why(tmp_path: Path, content: str) -> None:
    file = tmp_path / "bad.py"
    file.write_text(content)
    with pytest.raises(UserError, match="does not import"):
        load_plugin(file)
    with pytest.raises(UserError, match="no plugin file"):
        load_plugin(tmp_path / "absent.py")
