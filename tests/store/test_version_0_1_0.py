"""Files of the first version do not name their cell and what they changed: both follow from what they do say."""

from __future__ import annotations

import itertools
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

import emi_bench
from emi_bench.data import get_info
from emi_bench.methods import get_method
from emi_bench.run.resolve import resolve
from emi_bench.run.spec import stated
from emi_bench.store import version_0_1_0
from tests.synthetic import spec

ROOT = Path(__file__).parents[2]
FROZEN = ROOT / "emi_bench" / "store" / "defaults_0_1_0.json"


def set_by(command: str) -> dict[str, Any]:
    """What the command of a run sets: an independent witness of what it changed (how it is watched changes nothing)."""
    pairs = [word.partition("=") for flag, word in itertools.pairwise(shlex.split(command)) if flag == "--set"]
    return {key: yaml.safe_load(value) for key, _, value in pairs if key != "protocol.anytime"}


#: The example of schema 1 is older than 0.1.0, which changed Adam's unused rates of every method once more.
@pytest.mark.parametrize(
    ("store", "before"), [("results", {}), ("tests/store/files/schema1", {"betas": [0.9, 0.99]})], ids=["ours", "older"]
)
def test_stored_results_say_what_they_changed_and_which_cell_they_are_of(store: str, before: dict[str, Any]) -> None:
    runs = emi_bench.load_runs(ROOT / store)
    assert len(runs)
    for run in runs.to_dict("records"):
        assert run["changed"] == set_by(run["command"]) | before
    assert (runs.groupby("cell_id")["seed"].nunique() == runs.groupby("cell_id").size()).all()
    told = ["dataset", "method", "memory", runs["changed"].map(lambda changed: json.dumps(changed, sort_keys=True))]
    assert runs.groupby(told)["cell_id"].nunique().max() == 1
    assert (runs.groupby("cell_id")["variant"].nunique() == 1).all()
    rows = emi_bench.load_results(ROOT / store)
    assert dict(zip(rows["run_id"], rows["cell_id"], strict=True)) == dict(
        zip(runs["run_id"], runs["cell_id"], strict=True)
    )


@pytest.mark.parametrize("dataset", ["digits", "cifar10", "cifar100", "tinyimagenet"])
@pytest.mark.parametrize("name", json.loads(FROZEN.read_text())["methods"])
def test_the_frozen_defaults_are_those_of_the_code(name: str, dataset: str) -> None:
    """As long as a method is at the version it had then."""
    if get_method(name).version != 1:
        pytest.skip("its constants may have moved on")
    n = get_info(dataset).n_classes
    protocols: list[dict[str, Any]] = [{}, {"width": 8, "replay_batch": 12, "batch": 2 * n}]
    for memory, protocol in zip((3 * n, 10 * n), protocols, strict=True):
        configs: list[dict[str, Any]] = [{}, {"lr": 0.03, "weight_decay": 0.001}]
        for config in configs:
            made = resolve(name, dataset, memory=memory, config=config, protocol=protocol)
            stored = json.loads(made.model_dump_json(exclude={"changed", "cosmetic", "facts"}))
            stored["protocol"] = stated(stored["protocol"])  # later fields were not there
            stored["config"] = {k: v for k, v in stored["config"].items() if k not in made.left_out}
            assert version_0_1_0.changed(stored, n) == set_by(made.command())
            assert version_0_1_0.cell_id(stored) == made.cell_id


def test_a_plugins_own_constants_are_all_named() -> None:
    stored = json.loads(spec("er").model_dump_json()) | {"method": "mine"}
    stored["config"] |= {"strength": 3, "lr": 0.2}
    assert version_0_1_0.changed(stored, 10).items() >= {"strength": 3, "lr": 0.2}.items()
    assert "momentum" not in version_0_1_0.changed(stored, 10)
