"""Reports on sweep files: which runs are theirs, and how many each cell should have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from emi_bench.report.axes import Row, Setting
from emi_bench.report.evidence import Evidence
from emi_bench.report.figures import all_figures
from emi_bench.report.figures.studies import readings_figure
from emi_bench.report.grid import Grid
from emi_bench.report.options import Scope
from emi_bench.report.page.data import PageData
from emi_bench.report.page.render import results_table
from emi_bench.report.planned import read_planned
from emi_bench.report.runs import Run, to_run
from emi_bench.run.spec import RunSpec
from emi_bench.sweep.check import read_sweep
from emi_bench.sweep.plan import expand
from tests.report.synthetic import Cell, grid_cells, run_row, synthetic_runs

SWEEPS = Path(__file__).parents[2] / "sweeps"
COLUMNS = [("cifar10", 5, 500), ("cifar100", 10, 1000)]
EMI = Cell("emi", "cifar100", 10, 1000)
COS = replace(EMI, variant="dmi_threshold=cos", changes=(("dmi_threshold", "cos"),))


def grid_of(runs: pd.DataFrame, *paths: Path) -> Grid:
    return Grid(runs, Scope(read_planned(paths)))


def written(folder: Path, text: str, name: str = "mine") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(f"name: {name}\n{text}")
    return path


def column(grid: Grid, memory: int, dataset: str) -> Setting:
    return next(s for s in grid.settings if (s.dataset, s.memory) == (dataset, memory))


def test_each_sweep_brings_its_own_seeds():
    runs = pd.concat([synthetic_runs(grid_cells(settings=COLUMNS)), synthetic_runs([EMI, COS], range(100, 103))])
    grid = grid_of(runs, SWEEPS / "table1.yaml", SWEEPS / "readings.yaml")
    assert len(grid.runs) == len(runs)
    table = next(t for t in Evidence(grid).tables if t.name == "table1")
    assert {(s.n, s.expected) for s in table.summaries} == {(10, 10)}
    setting = column(grid, 1000, "cifar100")
    assert [r.seed for r in grid.cell(Row("emi"), setting).runs] == list(range(10))
    assert grid.cell(Row("emi", COS.variant), setting).expected == 3
    assert "spare-seeds" in {n.kind for n in grid.notes}
    (drawing,) = readings_figure(Evidence(grid))
    told = [(r["change"], r["n"], r["paired"]) for r in drawing.data]
    assert told == [("OCM", 10, True), ("dmi_threshold: cos", 3, True)]


def test_spare_seeds_asked_for_alone_are_complete():
    runs = synthetic_runs([EMI, COS], [*range(10), *range(100, 103)])
    grid = grid_of(runs, SWEEPS / "readings.yaml")
    cell = grid.cell(Row("emi"), column(grid, 1000, "cifar100"))
    assert [r.seed for r in cell.runs] == [100, 101, 102]
    assert cell.expected == 3
    assert "spare-seeds" not in {n.kind for n in grid.notes}


def test_more_seeds_than_the_papers_all_count_where_the_sweep_asks_for_them(tmp_path):
    text = "methods: [emi]\nsettings: [{dataset: cifar100, memory: 1000}]\nseeds: 12\n"
    grid = grid_of(synthetic_runs([EMI], range(11)), written(tmp_path, text))
    cell = grid.cell(Row("emi"), column(grid, 1000, "cifar100"))
    assert (cell.n, cell.expected) == (11, 12)


def test_every_setting_has_the_count_and_the_methods_of_its_own_sweep(tmp_path):
    one = written(tmp_path, "methods: [er]\nsettings: [{dataset: digits, memory: [50, 70]}]\nseeds: 2\n", "one")
    two = written(tmp_path, "methods: [emi]\nsettings: [{dataset: mine, memory: 30}]\nseeds: [4, 5, 6]\n", "two")
    er, emi = Cell("er", "digits", 5, 50), Cell("emi", "mine", 5, 30)
    grid = grid_of(pd.concat([synthetic_runs([er], range(9)), synthetic_runs([emi], range(9))]), one, two)
    cells = {(s.dataset, s.memory): s for s in grid.settings}
    assert set(cells) == {("digits", 50), ("digits", 70), ("mine", 30)}
    er_cells = [grid.cell(Row("er"), cells["digits", m]) for m in (50, 70)]
    assert [(c.n, c.expected) for c in er_cells] == [(2, 2), (0, 2)]
    mine = grid.cell(Row("emi"), cells["mine", 30])
    assert (mine.n, mine.expected) == (3, 3)
    assert grid.rows([cells["digits", 70]]) == [Row("er")]


def test_a_cell_that_no_setting_asks_for_is_not_missing(tmp_path):
    sweep = written(
        tmp_path,
        """methods: [er, scr]
settings:
  - {dataset: cifar10, memory: 500}
  - {dataset: cifar100, memory: 1000, methods: [er], seeds: 2}
seeds: 3
""",
    )
    runs = synthetic_runs([Cell("er", *place) for place in COLUMNS], range(2))
    for paper_grid, unasked in ((False, 0), (True, 10)):
        grid = Grid(runs, Scope(read_planned([sweep]), paper_grid=paper_grid))
        cells = {(m, d): grid.cell(Row(m), column(grid, memory, d)) for m in ("er", "scr") for d, _, memory in COLUMNS}
        assert {key: (cell.n, cell.expected) for key, cell in cells.items()} == {
            ("er", "cifar10"): (2, 3),
            ("scr", "cifar10"): (0, 3),
            ("er", "cifar100"): (2, 2),
            ("scr", "cifar100"): (0, unasked),
        }
        states = [c["state"] for row in _page_rows(grid) for c in row["cells"] if row["title"] == "SCR"]
        assert ("unplanned" in states) is not paper_grid


def _page_rows(grid: Grid) -> list[dict[str, Any]]:
    return results_table(Evidence(grid), PageData(grid), paper=True)["rows"]


def test_figures_leave_out_what_has_not_run(tmp_path):
    text = "methods: [finetune, offline, er, mir, emi]\nsettings: [{dataset: digits, memory: [50, 70]}]\nseeds: 2\n"
    runs = synthetic_runs(grid_cells(["finetune", "er", "emi"], [("digits", 5, 50)]), range(2))
    drawn = {d.name: d.data for d in all_figures(Evidence(grid_of(runs, written(tmp_path, text))))}
    for name in ("incremental_accuracy", "matrices_digits_t5_m50"):
        assert {r["method"] for r in drawn[name]} == {"finetune", "er", "emi"}


def protocol(**over: Any) -> dict[str, Any]:
    usual = {"n_tasks": 5, "batch": 10, "replay_batch": 64, "width": 20, "precision": "fp32"}
    return usual | {"reservoir": "batched", "class_order": "seed"} | over


def narrow(cell: Cell, seed: int) -> dict[str, Any]:
    row = run_row(cell, seed, protocol=protocol(width=8), run_id=f"{seed}narrow")
    return row | {"changed": {"protocol.width": 8}}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("methods: [er]\nsettings: [{dataset: digits, memory: 50}]", "default"),
        ("methods: [{name: er, config: {lr: 0.1}}]\nsettings: [{dataset: digits, memory: 50}]", "default"),
        ("methods: [{name: er, config: {lr: 1e-1}}]\nsettings: [{dataset: digits, memory: 50}]", "default"),
        ("methods: [{name: er, config: {lr: null}}]\nsettings: [{dataset: digits, memory: 50}]", "default"),
        ("methods: [{name: er, config: {lr: 0.5}}]\nsettings: [{dataset: digits, memory: 50}]", "fast"),
        ("methods: [{name: er, variants: {fast: {lr: 0.5}}}]\nsettings: [{dataset: digits, memory: 50}]", "fast"),
        ("methods: [{name: er, grid: {lr: [0.2, 0.5]}}]\nsettings: [{dataset: digits, memory: 50}]", "fast"),
        ("methods: [er]\nsettings: [{dataset: digits, memory: 50}]\nprotocol: {width: 8}", "narrow"),
        ("methods: [er]\nsettings: [{dataset: digits, memory: 50, protocol: {width: 8}}]", "narrow"),
        ("methods: [er]\nsettings: [{dataset: digits, memory: 50}]\nprotocol: {n_tasks: 2}", ""),
        ("methods: [er]\nsettings: [{dataset: 'npz:over/there/digits.npz', memory: 50}]", "own"),
        ("methods: [er]\nsettings: [{dataset: 'npz:birds.npz', memory: 50}]", ""),
    ],
)
def test_only_runs_of_the_sweep_are_reported(tmp_path, text, kept):
    """Same method, data set, memory and seeds: constants, protocol and source must be the sweep's too."""
    er = Cell("er", "digits", 5, 50)
    fast = replace(er, changes=(("lr", 0.5),))
    own = [run_row(replace(er, dataset="digits-0a1b2c3d"), s) for s in range(2)]
    own = [r | {"source": "npz:/data/digits.npz"} for r in own]
    found = {
        "default": [run_row(er, s) for s in range(2)],
        "fast": [run_row(fast, s) for s in range(2)],
        "narrow": [narrow(er, s) for s in range(2)],
        "own": own,
    }
    runs = pd.DataFrame([r for rows in found.values() for r in rows])
    grid = grid_of(runs, written(tmp_path, f"{text}\nseeds: 2\n"))
    assert {r.run_id for r in grid.runs} == {r["run_id"] for r in found.get(kept, [])}


def test_a_constant_that_cannot_change_a_result_makes_no_variant(tmp_path):
    text = "methods: [{name: emi, config: {checkpoint_joint: true}}]\n"
    text += "settings: [{dataset: cifar100, memory: 1000}]\nseeds: 2\n"
    assert len(grid_of(synthetic_runs([EMI], range(2)), written(tmp_path, text)).runs) == 2


def as_run(spec: RunSpec) -> Run:
    """A planned run as if it had finished."""
    row = run_row(Cell(spec.method, spec.dataset, spec.n_tasks, spec.memory, spec.variant), spec.seed)
    return to_run(row | {"run_id": spec.run_id, "source": spec.source} | spec.model_dump(mode="json"))


def test_the_reports_choice_is_the_sweeps_own():
    """Every cell of every sweep of the repository against every sweep: chosen if and only if its id is planned."""
    files = sorted(SWEEPS.glob("*.yaml"))
    planned, cells = {}, {}
    for path in files:
        found, _ = expand(*read_sweep(path))
        planned[path.stem] = {c.run_id for c in found}
        cells |= {c.run_id: c.spec for c in found if c.spec.seed in (0, 9, 100, 200)}
    runs = [as_run(spec) for spec in cells.values()]
    assert len(runs) > 300
    for path in files:
        wanted = read_planned([path]).wants
        assert {r.run_id for r in runs if wanted(r)} == planned[path.stem] & cells.keys(), path.name
