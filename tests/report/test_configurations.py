"""Runs of different configurations never share a cell: what differs names their rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from emi_bench import load_runs
from emi_bench.report.axes import ACCURACY, Row
from emi_bench.report.build import build_from
from emi_bench.report.evidence import Evidence
from emi_bench.report.grid import Grid
from emi_bench.report.options import ReportOptions
from emi_bench.report.page.data import PageData
from emi_bench.report.page.render import variant_rows
from emi_bench.report.statistics import contrast, signed
from emi_bench.report.studies import STUDIES, all_studies, readings
from emi_bench.run.resolve import resolve
from tests.report.synthetic import Cell, run_row, study_cells, synthetic_runs

ROOT = Path(__file__).parents[2]
ER = Cell("er", "cifar10", 5, 200)
HOT, COLD = (replace(ER, variant="fast", changes=(("lr", lr),), shift=lr / 10) for lr in (0.5, 0.05))


def rows(grid: Grid) -> dict[str, list[int]]:
    """Seeds by the row's name, in the first column."""
    (setting,) = grid.settings
    found = grid.rows([setting], variants=True)
    return {row.title: [r.seed for r in grid.cell(row, setting).runs] for row in found}


def told(grid: Grid, kind: str) -> str:
    (text,) = (n.text for n in grid.notes if n.kind == kind)
    return text


def version(cell: Cell, number: int, seeds: range, **over: Any) -> pd.DataFrame:
    when = f"202{number}-01-01T00:00:00+00:00"
    moved = replace(cell, shift=cell.shift + number / 100)
    return pd.DataFrame([run_row(moved, s, method_version=number, finished=when, **over) for s in seeds])


@pytest.mark.parametrize(("first", "second"), [(range(3), range(3)), (range(3), range(3, 5))])
def test_one_name_with_two_constants_is_two_rows_whatever_their_seeds(first, second):
    grid = Grid(pd.concat([synthetic_runs([HOT], first), synthetic_runs([COLD], second)]))
    assert rows(grid) == {"ER [fast: lr=0.05]": list(second), "ER [fast: lr=0.5]": list(first)}
    assert "er[fast: lr=0.5]" in told(grid, "config")


def test_a_name_that_is_two_rows_in_one_column_says_its_constants_in_every_column():
    elsewhere = replace(HOT, memory=500)
    grid = Grid(pd.concat([synthetic_runs([HOT, elsewhere], range(3)), synthetic_runs([COLD], range(3))]))
    (row,) = grid.rows([s for s in grid.settings if s.memory == 500])
    assert row.title == "ER [fast: lr=0.5]"


def test_a_default_that_is_another_one_now_keeps_the_name_and_the_older_says_its_constants():
    old, new = synthetic_runs([ER], range(4)), synthetic_runs([ER], range(2))
    new = new.assign(config=[{"lr": 0.3}] * 2, run_id=["e" * 64, "f" * 64], finished="2021-01-01T00:00:00+00:00")
    grid = Grid(pd.concat([new, old]))
    assert rows(grid) == {"ER": [0, 1], "ER [lr=0.1]": [0, 1, 2, 3]}


def test_constants_that_cannot_change_a_result_stay_in_one_cell():
    runs = synthetic_runs([ER], range(4))
    grid = Grid(runs.assign(config=[{"lr": 0.1, "checkpoint_joint": s % 2 > 0} for s in runs["seed"]]))
    assert rows(grid) == {"ER": [0, 1, 2, 3]}
    assert "cannot change" in told(grid, "config")
    later = runs.assign(
        config=[{"lr": 0.1} | ({"optimizer": "sgd"} if s % 2 else {}) for s in runs["seed"]],
        left_out=[["checkpoint_joint", *(["optimizer"] if s % 2 else [])] for s in runs["seed"]],
    )
    assert rows(Grid(later)) == {"ER": [0, 1, 2, 3]}


def test_an_older_version_is_a_row_below_the_newest_and_is_compared_with_it_by_seed(tmp_path):
    grid = Grid(pd.concat([version(ER, 2, range(3)), version(ER, 1, range(5))]))
    assert rows(grid) == {"ER": [0, 1, 2], "ER [version 1]": [0, 1, 2, 3, 4]}
    assert "er[version 1]" in told(grid, "version")
    table = next(t for t in Evidence(grid).tables if t.number == 1)
    assert [line.labels[0].plain for line in table.lines] == ["ER", "ER [version 1]"]
    (setting,) = grid.settings
    old, new = (grid.cell(row, setting).by_seed(ACCURACY) for row in (Row("er", "version 1"), Row("er")))
    gap = sum(old[s] - new[s] for s in range(3)) / 3
    shown = {r["title"]: r["delta"] for r in variant_rows(Evidence(grid), PageData(grid))}
    assert shown == {"ER [version 1]": signed(gap)}
    build_from(pd.concat([version(ER, 2, range(3)), version(ER, 1, range(5))]), tmp_path, ReportOptions())
    assert "ER [version 1]" in (tmp_path / "index.html").read_text()


def test_the_changes_of_an_older_version_are_not_those_of_the_newest():
    grid = Grid(pd.concat([version(HOT, 2, range(3)), version(HOT, 1, range(3)), version(ER, 2, range(3))]))
    assert list(rows(grid)) == ["ER", "ER [fast]", "ER [fast, version 1]"]
    (setting,) = grid.settings
    cells = {name: grid.cell(Row("er", name), setting) for name in ("", "fast", "fast, version 1")}
    older = contrast(*(cells[name].by_seed(ACCURACY) for name in ("fast, version 1", "fast")))
    assert Evidence(grid).against_default(cells["fast, version 1"], Row("er", "fast, version 1"), setting) == older


def test_runs_from_before_a_constant_say_so_and_are_no_reading() -> None:
    emi, flip = Cell("emi", "cifar100", 10, 1000), Cell("emi", "cifar100", 10, 1000, "flip", changes=(("tau", 0.1),))
    now = synthetic_runs([emi], range(3))
    now = now.assign(config=[c | {"own": 0.5} for c in now["config"]])
    before = synthetic_runs([emi], range(3)).assign(run_id="before-" + now["run_id"])
    before = before.assign(finished="2020-01-01T00:00:00+00:00")
    flips = synthetic_runs([flip], range(3))
    grid = Grid(pd.concat([now, before, flips.assign(config=[c | {"own": 0.5} for c in flips["config"]])]))
    assert "EMI [own=absent]" in rows(grid)
    (setting,) = grid.paper_settings
    assert "" not in readings(grid, setting)


def test_only_the_newest_version_enters_studies_readings_and_sentences():
    emi = Cell("emi", "cifar100", 10, 1000)
    cells = [emi, *study_cells()]
    new = pd.concat([version(c, 2, range(3)) for c in cells])
    both = pd.concat([new, *(version(c, 1, range(3)) for c in cells)])
    alone, mixed = Grid(new), Grid(both)
    (setting,) = mixed.settings
    for about in STUDIES.values():
        (a,), (b,) = all_studies(alone, about), all_studies(mixed, about)
        assert {p: [r.run_id for r in c.runs] for p, c in a.points.items()} == {
            p: [r.run_id for r in c.runs] for p, c in b.points.items()
        }
    assert readings(alone, setting).keys() == readings(mixed, setting).keys()
    (table,) = [t for t in Evidence(mixed).tables if t.number == 1]
    assert "EMI [version 1]" in [line.labels[0].plain for line in table.lines]


def test_an_edited_file_of_the_users_own_is_a_row_of_its_own():
    mine = Cell("mine", "cifar10", 5, 200)
    old = version(mine, 1, range(3), code_sha256="a" * 64)
    new = version(mine, 1, range(2), code_sha256="b" * 64)
    new = new.assign(run_id=["e" * 64, "f" * 64], finished="2029-01-01T00:00:00+00:00")
    assert rows(Grid(pd.concat([old, new]))) == {"mine": [0, 1], "mine [code aaaaaa]": [0, 1, 2]}


def test_a_cell_of_the_report_is_a_cell_of_the_store():
    modern = {"preset": "modern", "width": 20, "reservoir": "batched"}  # other constants in the paper's column
    asked: list[dict[str, Any]] = [
        {}, {"seed": 1}, {"config": {"lr": 0.5}, "variant": "fast"}, {"config": {"lr": 0.05}, "variant": "fast"},
        {"config": {"lr": 0.5, "mem_iters": 2}, "variant": "fast"}, {"protocol": modern}, {"protocol": {"batch": 5}},
        {"protocol": modern, "config": {"lr": 0.5}, "variant": "fast"}, {"memory": 60}, {"config": {"ema": {}}},
    ]  # fmt: skip
    specs = [resolve("er", "digits", **({"memory": 50} | a)) for a in asked]
    specs += [s.model_copy(update=u) for s in specs[:3] for u in ({"method_version": 2}, {"code_sha256": "a" * 64})]
    specs += [specs[0].model_copy(update={"train_every": 2})]
    told = [s.model_dump(mode="json", exclude={"dataset", "memory", "seed"}) | {"run_id": s.run_id} for s in specs]
    rows = [run_row(Cell("er", "digits", 5, s.memory), s.seed, **t) for s, t in zip(specs, told, strict=True)]
    grid = Grid(pd.DataFrame(rows))
    found = {r.run_id: (r.row, r.setting) for r in grid.runs}
    assert len(found) == len(specs)
    cells = {(s.cell_id, found[s.run_id]) for s in specs}
    assert len(cells) == len({s.cell_id for s in specs}) == len(set(found.values()))


def test_no_cell_of_the_committed_stores_holds_two_configurations():
    runs = load_runs(ROOT / "results")
    cell_of = dict(zip(runs["run_id"], runs["cell_id"], strict=True))
    grid = Grid(runs)
    assert len(grid.runs) == len(runs)
    assert not grid.older
    for setting in grid.settings:
        for row in grid.rows([setting], variants=True):
            assert len({cell_of[r.run_id] for r in grid.cell(row, setting).runs}) <= 1
