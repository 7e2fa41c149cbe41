"""Tasks that a user spells out: any sizes, by name or number, some classes left out."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from emi_bench.cli import app as cli
from emi_bench.data import load
from emi_bench.data.info import CIFAR10, TINYIMAGENET
from emi_bench.data.tasks import checked_groups
from emi_bench.errors import UserError
from emi_bench.methods import method_names
from emi_bench.run.execute import execute
from emi_bench.run.loop import run
from emi_bench.run.resolve import resolve
from emi_bench.store import Store, load_runs
from tests.synthetic import FAST, register_blobs

SHORT = {"gdumb": {"epochs": 2}, "offline": {"epochs": 1, "batch": 10}}
UNEQUAL = [[4], [0, 5, 2], [3, 1]]


@pytest.fixture(scope="module", autouse=True)
def six() -> None:
    register_blobs("six", classes=6, n_tasks=3, per_class=7)


def asked(tasks: Any, method: str = "er", dataset: str = "digits", **more: Any) -> Any:
    return resolve(method, dataset, memory=24, protocol=FAST | {"tasks": tasks}, **more)


def test_one_split_has_one_id_however_it_is_written() -> None:
    names = resolve("er", "cifar10", memory=100, protocol={"tasks": [["cat", "dog"], ["truck"]]})
    assert names.protocol.groups == [["cat", "dog"], ["truck"]]
    for same in ([[3, 5], [9]], [["dog", 3], [9]], names.protocol.tasks, '[["cat", "dog"], ["truck"]]'):
        assert resolve("er", "cifar10", memory=100, protocol={"tasks": same, "n_tasks": 2}).run_id == names.run_id
    other = resolve("er", "cifar10", memory=100, protocol={"tasks": [["truck"], ["cat", "dog"]]})
    assert other.run_id != names.run_id
    assert "tasks" not in resolve("er", "cifar10", memory=100).identity()["protocol"]
    assert names.changed == {"protocol.tasks": '[["cat", "dog"], ["truck"]]'}
    assert '--set \'protocol.tasks=[["cat", "dog"], ["truck"]]\'' in names.command()


@pytest.mark.parametrize(
    ("protocol", "told"),
    [
        ({"tasks": [["cta"], ["dog"]]}, "has no class 'cta'"),
        ({"tasks": [[10], [1]]}, "has no class 10"),
        ({"tasks": [["cat"], [3]]}, "class cat is in two places"),
        ({"tasks": [["cat"]]}, "one class in all"),
        ({"tasks": [["cat"], []]}, "lists of classes"),
        ({"tasks": [[True], [1]]}, "lists of classes"),
        ({"tasks": "cat"}, "lists of classes"),
        ({"tasks": [["cat"], ["dog"]], "n_tasks": 5}, "n_tasks is 5, but tasks has 2"),
        ({"tasks": [["cat"], ["dog"]], "class_order": "natural"}, "both say in which order"),
    ],
)
def test_a_split_that_cannot_be_is_refused(protocol: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told) as error:
        resolve("er", "cifar10", memory=100, protocol=protocol)
    assert error.value.hint


def test_classes_without_a_name_of_their_own_go_by_number() -> None:
    assert checked_groups(TINYIMAGENET, [[7, 2], [5]]) == [[2, 7], [5]]
    with pytest.raises(UserError, match="not known before it is loaded"):
        checked_groups(TINYIMAGENET, [["cat"], [5]])
    twins = CIFAR10.__class__("twins", 3, None, 8, 9, 9, (0, 0, 0), (1, 1, 1), class_names=("a", "b", "a"))
    assert checked_groups(twins, [["b"], [0, 2]]) == [[1], [0, 2]]
    with pytest.raises(UserError, match="2 classes of twins are called 'a'"):
        checked_groups(twins, [["b"], ["a"]])


def test_the_stream_and_the_test_set_follow_the_lists() -> None:
    spec = asked([[8, 1, 3], [0], [9, 2]])
    assert (spec.n_tasks, spec.memory) == (3, 24)
    data = load("digits", reduction=spec.protocol.reduction)
    assert data.class_names == ("0", "1", "2", "3", "8", "9")
    result = run(spec, data)
    assert result.class_order == [1, 3, 4, 0, 2, 5]
    whole = load("digits")
    counts = whole.y_test.bincount().tolist()
    assert result.n_test == [counts[1] + counts[3] + counts[8], counts[0], counts[2] + counts[9]]
    assert result.matrix.shape == (3, 3)
    assert result.data_fingerprint == data.fingerprint != whole.fingerprint
    with pytest.raises(ValueError, match="the data has 10 classes, the tasks of the spec have 6"):
        run(spec, whole)


def test_all_classes_in_another_grouping_are_the_same_data() -> None:
    spec = asked([[0, 1, 2], [3, 4, 5, 6, 7, 8, 9]])
    assert load("digits", reduction=spec.protocol.reduction).fingerprint == load("digits").fingerprint


def test_the_memory_needs_a_place_for_each_class_that_comes() -> None:
    assert resolve("er", "digits", memory=3, protocol={"tasks": [[0, 1], [2]]}).memory == 3
    with pytest.raises(UserError, match="smaller than the 4 classes"):
        resolve("er", "digits", memory=3, protocol={"tasks": [[0, 1], [2, 3]]})


#: One of each kind: they differ in what they do with a batch and at the end of a task, not in what a task is.
KINDS = ("finetune", "offline", "er", "gdumb", "ssd", "ocm", "derpp")


@pytest.mark.no_cover
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in KINDS else [pytest.mark.slow]) for n in method_names()]
)
def test_every_method_copes_with_tasks_of_different_sizes(name: str) -> None:
    spec = asked(UNEQUAL, name, "six", config=SHORT.get(name))
    result = run(spec, load("six", reduction=spec.protocol.reduction))
    assert result.n_test == [6, 18, 12]
    assert np.isfinite(result.matrix[-1]).all()


def test_a_balanced_stream_has_batches_of_the_task_s_own_classes() -> None:
    spec = asked(UNEQUAL, "ssd", "six", config={"stream": "balanced"})
    assert np.isfinite(run(spec, load("six")).matrix[-1]).all()
    with pytest.raises(UserError, match="a batch of 2 cannot hold all 3 classes"):
        resolve("ssd", "six", memory=24, config={"stream": "balanced"}, protocol={"tasks": UNEQUAL, "batch": 2})


def test_a_sweep_and_its_report_know_the_tasks(tmp_path: Path) -> None:
    sweep = tmp_path / "own.yaml"
    tasks = "[[8, 1, 3], [0], [9, 2]]"
    sweep.write_text(
        f"name: own\nmethods: [er, finetune]\nsettings:\n  - {{dataset: digits, memory: 24}}\nseeds: 2\n"
        f"protocol: {{tasks: {tasks}, width: 2, batch: 50, replay_batch: 10, train_per_class: 20}}\n"
    )
    answer = CliRunner().invoke(cli.app, ["plan", str(sweep), "--results", str(tmp_path / "results")])
    assert answer.exit_code == 0, answer.output
    protocol = {"tasks": [[8, 1, 3], [0], [9, 2]], "width": 2, "batch": 50, "replay_batch": 10, "train_per_class": 20}
    for method in ("er", "finetune"):
        for seed in range(2):
            spec = resolve(method, "digits", memory=24, seed=seed, protocol=protocol)
            execute(spec, Store(str(tmp_path / "results")), partial(load, "digits", reduction=spec.protocol.reduction))
    runs = load_runs(tmp_path / "results")
    assert set(runs["n_tasks"]) == {3}
    words = ["--results", str(tmp_path / "results"), "--out", str(tmp_path / "report"), "--only", "tables"]
    answer = CliRunner().invoke(cli.app, ["report", str(sweep), *words])
    assert answer.exit_code == 0, answer.output
    table = (tmp_path / "report" / "tables" / "accuracy.csv").read_text()
    assert table.count("digits") == 2


def test_a_wrong_split_is_said_where_it_stands_in_the_sweep(tmp_path: Path) -> None:
    sweep = tmp_path / "own.yaml"
    sweep.write_text(
        "name: own\nmethods: [er]\nsettings:\n  - dataset: digits\n    memory: 24\nseeds: 1\n"
        "protocol:\n  width: 2\n  tasks: [[1, 2], [2, 3]]\n"
    )
    with pytest.raises(UserError, match=r"own\.yaml:9.*class 2 is in two places"):
        CliRunner().invoke(cli.app, ["plan", str(sweep)], catch_exceptions=False)
