"""What a method says of itself is read the same from its source, its class and its stored runs; ids are a promise."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from emi_bench.facts import built_in_facts, facts_of
from emi_bench.methods import get_method, load_plugin
from emi_bench.methods.er import ER
from emi_bench.report.runs import to_run
from emi_bench.run.resolve import resolve
from emi_bench.run.spec import RunSpec
from tests.report.synthetic import Cell, run_row

GOLDEN = Path(__file__).parent / "golden" / "run_ids.json"
IDS: dict[str, str] = json.loads(GOLDEN.read_text())


@pytest.mark.parametrize("name", built_in_facts())
def test_ids_of_the_first_version_stay(name: str) -> None:
    spec = resolve(name, "cifar10", memory=1000, seed=0)
    assert spec.run_id == IDS[name]
    assert spec.changed == {}


@pytest.mark.parametrize("name", built_in_facts())
def test_the_source_says_what_the_class_says(name: str) -> None:
    assert built_in_facts()[name] == facts_of(get_method(name))


def test_the_papers_rows_are_fifteen_in_its_order() -> None:
    places = {name: f.place for name, f in built_in_facts().items() if f.place is not None}
    assert list(places) == list(IDS)[:15]
    assert list(places.values()) == list(range(15))


def test_facts_are_read_without_torch() -> None:
    code = "import sys; from emi_bench.facts import built_in_facts; built_in_facts(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_facts_that_an_older_program_did_not_store_come_from_the_source() -> None:
    older = {k: v for k, v in asdict(built_in_facts()["offline"]).items() if k != "joint"}
    assert to_run(run_row(Cell("offline", "digits", 5, 0), 0, facts=older)).row.known.joint


def test_a_method_that_builds_on_another_does_not_take_its_place() -> None:
    class Mine(ER):
        name = "mine"

    facts = facts_of(Mine)
    assert (facts.title, facts.place, facts.cite, facts.colour) == ("mine", None, "", "")


def test_a_cell_is_a_run_without_its_seed() -> None:
    def cell(**asked: Any) -> str:
        return resolve("er", "digits", **({"memory": 50} | asked)).cell_id

    assert cell(seed=0) == cell(seed=1)
    others = [cell(), cell(memory=60), cell(config={"lr": 0.2}), cell(protocol={"batch": 5})]
    assert len(set(others)) == 4


def test_a_spec_knows_what_it_changed() -> None:
    spec = resolve("emi", "digits", memory=50, config={"smi": False, "checkpoint_joint": True}, protocol={"width": 8})
    assert spec.changed == {"protocol.width": 8, "smi": False}
    assert "checkpoint_joint" in spec.left_out
    again = RunSpec.model_validate_json(spec.model_dump_json())
    assert again == spec
    assert again.run_id == spec.run_id


def test_a_field_added_later_enters_the_id_only_where_it_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    config = get_method("er").config_class
    before = resolve("er", "digits", memory=50)
    monkeypatch.setattr(config, "added", frozenset({"momentum"}))  # as if it were younger than the method
    at_default, other = (resolve("er", "digits", memory=50, config={"momentum": m}) for m in (0.0, 0.9))
    assert "momentum" in before.identity()["config"]
    assert "momentum" not in at_default.identity()["config"]
    assert other.identity()["config"]["momentum"] == 0.9


def test_an_edited_plugin_is_another_method(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    text = "from emi_bench.methods.er import ER\n\n\nclass Edited(ER):\n    name = 'edited'\n    title = 'Ours'\n"
    ids = []
    for content in (text, text + "\n# a remark\n", text):
        file.write_text(content)
        load_plugin(file)
        spec = resolve("edited", "digits", memory=50)
        assert spec.plugin == str(file)
        assert spec.facts is not None
        assert spec.facts.title == "Ours"
        ids.append(spec.run_id)
    assert ids[0] == ids[2] != ids[1]
