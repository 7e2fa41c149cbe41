from __future__ import annotations

from pathlib import Path

import pytest

from emi_bench.errors import UserError
from emi_bench.facts import built_in_facts
from emi_bench.run.resolve import resolve
from emi_bench.store import Store
from emi_bench.store.leases import Claims
from emi_bench.sweep.check import read_sweep
from emi_bench.sweep.plan import Cell, expand, make_plan, parse_only, parse_seeds, select
from tests.sweep.sweeping import ROOT, sweep_file

SWEEPS = sorted((ROOT / "sweeps").glob("*.yaml"))


def cells_of(name: str) -> list[Cell]:
    return expand(*read_sweep(ROOT / "sweeps" / f"{name}.yaml"))[0]


@pytest.mark.parametrize("file", SWEEPS, ids=lambda p: p.stem)
def test_every_sweep_in_the_repository_can_be_planned(file: Path) -> None:
    cells, repeated = expand(*read_sweep(file))
    assert cells
    assert repeated == 0


def test_table1_is_1230_runs_and_memory_free_methods_run_once_per_data_set() -> None:
    cells = cells_of("table1")
    assert len(cells) == 1230
    assert {c.spec.method for c in cells} == {
        name for name, facts in built_in_facts().items() if facts.place is not None
    }
    assert sum(c.spec.method == "finetune" for c in cells) == 30
    assert sum(c.spec.method == "emi" for c in cells) == 90


def test_the_default_emi_cell_of_four_tables_is_one_run() -> None:
    ids = [{c.run_id for c in cells_of(n)} for n in ("table1", "ablation", "alpha", "prototypes")]
    shared = set.intersection(*ids)
    assert len(shared) == 10  # its ten seeds
    for name in ("ablation", "alpha", "prototypes"):
        assert {c.spec.variant for c in cells_of(name) if c.run_id in shared} == {""}


def test_efficiency_is_measured_on_runs_of_its_own() -> None:
    assert not {c.run_id for c in cells_of("efficiency")} & {c.run_id for c in cells_of("table1")}


def test_a_cell_has_the_id_of_the_same_single_run(tmp_path: Path) -> None:
    cells, _ = expand(*read_sweep(sweep_file(tmp_path)))
    protocol = {"width": 2, "batch": 5, "replay_batch": 5}
    assert [c.run_id for c in cells] == [
        resolve("er", "digits", memory=40, seed=s, protocol=protocol).run_id for s in range(4)
    ]


def test_a_cell_named_twice_is_planned_once(tmp_path: Path) -> None:
    cells, repeated = expand(*read_sweep(sweep_file(tmp_path, methods="er, {name: er, variants: {same: {lr: 0.1}}}")))
    assert (len(cells), repeated) == (4, 4)


def test_a_grid_makes_a_variant_of_every_combination(tmp_path: Path) -> None:
    file = sweep_file(tmp_path, methods="{name: er, grid: {lr: [0.1, 0.2], momentum: [0.0, 0.5]}}", seeds=1)
    cells, _ = expand(*read_sweep(file))
    assert [c.spec.variant for c in cells] == ["", "lr=0.1,momentum=0.5", "lr=0.2,momentum=0.0", "lr=0.2,momentum=0.5"]


def test_options_narrow_the_plan(tmp_path: Path) -> None:
    cells, _ = expand(*read_sweep(sweep_file(tmp_path, methods="er, finetune")))
    assert len(select(cells, parse_only(["method=er"]), None, None)) == 4
    assert len(select(cells, parse_only(["method=er|finetune"]), parse_seeds("0-1"), None)) == 4
    assert len(select(cells, {}, None, 3)) == 3
    with pytest.raises(UserError, match="Did you mean finetune"):
        select(cells, parse_only(["method=finetun"]), None, None)
    with pytest.raises(UserError, match="Did you mean method"):
        parse_only(["methd=er"])
    with pytest.raises(UserError, match="100000000 seeds, and a sweep has at most 10000"):
        parse_seeds("0-99999999")
    with pytest.raises(UserError, match="no cell is left"):
        select(cells, {}, {77}, None)


def test_a_plan_tells_done_held_and_left_apart(tmp_path: Path) -> None:
    cells, _ = expand(*read_sweep(sweep_file(tmp_path)))
    store = Store(tmp_path / "results")
    Claims(store.files).acquire(cells[1].run_id, owner="another")
    path = Store.path(cells[0].spec)
    store.files.write(path, b"PAR1 content PAR1")
    plan = make_plan(cells, store)
    assert plan.done == [cells[0]]
    assert [c for c, _ in plan.held] == [cells[1]]
    assert plan.todo == cells[2:]
    assert make_plan(cells, store, owner="another").held == []


def test_a_single_run_has_the_limits_of_a_sweep() -> None:
    with pytest.raises(UserError, match=f"the last one is {2**63 - 1}"):
        resolve("finetune", "digits", seed=2**70)
    with pytest.raises(UserError, match="the most is --memory 10000000"):
        resolve("er", "digits", memory=10**9)
