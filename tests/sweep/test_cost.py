from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from emi_bench import methods
from emi_bench.data import get_info, load
from emi_bench.errors import UserError
from emi_bench.methods import load_plugin
from emi_bench.run.execute import execute
from emi_bench.run.resolve import resolve
from emi_bench.store import Store
from emi_bench.sweep import cost
from emi_bench.sweep.check import read_sweep
from emi_bench.sweep.cost import Costs, load_of
from emi_bench.sweep.plan import Cell, expand
from emi_bench.sweep.resources import Cluster, Request, check_feasible, settle, share_for, slots, warnings_of
from tests.sweep.sweeping import sweep_file

LAPTOP = Cluster([{"CPU": 2.0}])
SERVER = Cluster([{"CPU": 16.0, "GPU": 4.0}, {"CPU": 8.0, "a100": 1.0}])


def cells_of(tmp_path: Path, **options: Any) -> list[Cell]:
    return expand(*read_sweep(sweep_file(tmp_path, **options)))[0]


@pytest.mark.parametrize(
    ("method", "ratio"),
    [("finetune", 0.14), ("mir", 3.9), ("scr", 2.0), ("pcr", 2.0), ("ocm", 37.8), ("onpro", 34.6), ("emi", 55)],
)
def test_the_cost_model_gives_the_ratios_of_the_specification(method: str, ratio: float) -> None:
    er = resolve("er", "cifar10", memory=1000)
    spec = resolve(method, "cifar10", memory=1000)
    tested = 10000 * 3
    found = (load_of(spec).forwards - tested) / (load_of(er).forwards - tested)
    assert found == pytest.approx(ratio, rel=0.04)


@pytest.mark.parametrize("batch", [5, 10, 40])
def test_gss_compares_a_batch_with_subsets_of_a_hundred_images_however_large_the_batch_is(batch: int) -> None:
    protocol = {"batch": batch}
    er = resolve("er", "cifar10", memory=1000, protocol=protocol)
    gss = resolve("gss", "cifar10", memory=1000, protocol=protocol)
    more = (load_of(gss).forwards - load_of(er).forwards) / load_of(er).steps
    assert more == pytest.approx(3 * (100 + batch))


def test_a_users_own_joint_method_costs_its_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "_plugins", {})
    plugin = tmp_path / "joint.py"
    plugin.write_text(
        "from emi_bench.methods.offline import Offline\n\n\nclass Mine(Offline):\n    name = 'my_bound'\n"
    )
    load_plugin(plugin)
    own, bound = (load_of(resolve(name, "cifar10", config={"epochs": 7})) for name in ("my_bound", "offline"))
    assert own == bound


def test_measured_runs_replace_the_model_for_other_seeds_and_correct_it_for_other_methods(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, methods="er, finetune", batch=50)
    store = Store(tmp_path / "results")
    before = Costs(store, cells)
    assert not before.of(cells[0], gpu=False).measured
    result = execute(cells[0].spec, store, lambda: load("digits")).result
    assert result is not None
    after = Costs(store, cells)
    assert after.of(cells[1], gpu=False).measured
    assert after.of(cells[1], gpu=False).seconds == pytest.approx(result.wall_seconds)
    finetune = next(c for c in cells if c.spec.method == "finetune")
    was = before.of(finetune, gpu=False).seconds / before.of(cells[0], gpu=False).seconds
    assert after.of(finetune, gpu=False).seconds == pytest.approx(was * result.wall_seconds)
    assert not after.of(cells[0], gpu=True).measured  # a CPU says nothing of a card


def test_data_are_asked_for_where_the_sweep_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roots = []
    monkeypatch.setattr(cost, "get_info", lambda name, root: (roots.append(root), get_info(name, root))[1])
    cells = cells_of(tmp_path, methods="er, finetune")
    costs = Costs(Store(tmp_path / "results"), cells, root=tmp_path)
    assert costs.of(cells[0], gpu=False).seconds > 0
    assert roots == [tmp_path]  # once a cell


def test_auto_packs_a_card_by_memory_and_is_nothing_without_cards(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, resources="{gpu: auto}")
    costs = Costs(Store(tmp_path / "results"), cells)
    assert {r.gpu for r in settle(cells, costs, LAPTOP, lambda: 1 / 0).values()} == {0.0}
    small = {r.gpu for r in settle(cells, costs, SERVER, lambda: 24e9).values()}
    assert len(small) == 1
    assert 0 < small.pop() <= 0.1
    assert share_for(20e9, 24e9) == 1
    given = cells_of(tmp_path, resources="{gpu: auto, gpu_memory: 1}")
    assert {r.gpu for r in settle(given, costs, SERVER, lambda: 1 / 0).values()} == {1.0}


def test_a_share_that_does_not_divide_a_card_is_pointed_out() -> None:
    assert warnings_of([Request(1, 0.25, "auto"), Request(1, 1.0, "auto")]) == []
    (told,) = warnings_of([Request(1, 0.3, "auto")])
    assert "3 runs fit and 10 %" in told


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (Request(1, 0.5, "auto"), "resources: {gpu: 0}"),
        (Request(4, 0, "auto"), "at most 2 in `resources: cpu`"),
        (Request(1, 0, "auto", (("a100", 1.0),)), "custom.a100"),
    ],
)
def test_what_no_node_has_is_refused_with_the_clusters_resources_and_the_fix(request_: Request, says: str) -> None:
    with pytest.raises(UserError) as told:
        check_feasible({"a": request_}, LAPTOP)
    assert "1 node with 2 CPU" in told.value.message
    assert says in told.value.hint


def test_what_no_single_node_has_is_refused_although_the_sum_would_do() -> None:
    check_feasible({"a": Request(8, 0, "auto", (("a100", 1.0),))}, SERVER)
    with pytest.raises(UserError, match="no single node has all of it"):
        check_feasible({"a": Request(1, 1, "auto", (("a100", 1.0),))}, SERVER)


def test_slots_follow_the_scarcest_resource_and_kinds_take_turns() -> None:
    assert slots([Request(1, 0.5)], SERVER) == 8
    assert slots([Request(1, 0)], SERVER) == 24
    assert slots([Request(1, 0)], SERVER, 3) == 3
    assert slots([Request(1, 1), Request(1, 0)], SERVER) == 24
    assert slots([Request(1, 1), Request(8, 0)], SERVER) == 6  # four cards, and eight cores on either machine


def test_a_head_without_cpus_is_told_as_one() -> None:
    cluster = Cluster([{"memory": 1e9, "node:10.0.0.1": 1.0}, {"CPU": 4.0}, {"CPU": 4.0}])
    assert str(cluster) == "1 node with no CPU; 2 nodes with 4 CPU"
