"""Input that is odd: what is set aside, what is marked, and what the reader is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from emi_bench.errors import UserError
from emi_bench.report.axes import ACCURACY, Row
from emi_bench.report.cells import summarize
from emi_bench.report.checks import read_runs
from emi_bench.report.evidence import Evidence
from emi_bench.report.figures import all_figures
from emi_bench.report.figures.studies import readings_figure
from emi_bench.report.grid import Grid
from emi_bench.report.runs import named_variant
from tests.report.synthetic import Cell, digits_runs, grid_cells, run_row, synthetic_runs


def kinds(grid: Grid) -> set[str]:
    return {n.kind for n in grid.notes}


def broken(runs: pd.DataFrame, index: int, change: Callable[[np.ndarray], None]) -> pd.DataFrame:
    runs = runs.copy()
    matrix = runs["matrix"].iloc[index].copy()
    change(matrix)
    runs["matrix"] = [matrix if i == index else m for i, m in enumerate(runs["matrix"])]
    return runs


def test_clean_input_has_no_notes(digits_frame):
    assert Grid(digits_frame).notes == []


def test_a_frame_without_the_stores_columns_is_refused_with_their_names(digits_frame):
    with pytest.raises(UserError, match="matrix"):
        Grid(digits_frame.drop(columns="matrix"))


def test_mixed_schema_versions_are_said_and_used(digits_frame):
    runs = digits_frame.assign(schema_version=[1 + i % 2 for i in range(len(digits_frame))])
    grid = Grid(runs)
    assert kinds(grid) == {"schema"}
    assert len(grid.runs) == len(runs)


def test_the_same_run_twice_counts_once(digits_frame):
    grid = Grid(pd.concat([digits_frame, digits_frame.iloc[:2]]))
    assert kinds(grid) == {"duplicate"}
    assert len(grid.runs) == len(digits_frame)


def test_two_runs_of_one_cell_and_seed_are_said_and_the_later_counts(digits_frame):
    again = digits_frame[digits_frame["method"] == "er"].iloc[:1].copy()
    again["run_id"] = "f" * 64
    again["finished"] = "2021-01-01T00:00:00+00:00"
    again["average_accuracy"] = 0.99
    grid = Grid(pd.concat([again, digits_frame]))
    assert kinds(grid) == {"duplicate"}
    assert len(grid.runs) == len(digits_frame)
    assert "f" * 64 in {r.run_id for r in grid.runs}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.__setitem__((2, 1), np.nan), "is not a number"),
        (lambda m: m.__setitem__(2, np.nan), "no row for task 3"),
        (lambda m: m.__setitem__((4, 0), 57.1), "outside 0-1"),
    ],
)
def test_a_broken_matrix_is_set_aside_and_its_cell_is_partial(digits_frame, change, words):
    index = int(np.flatnonzero(digits_frame["method"] == "er")[0])
    grid = Grid(broken(digits_frame, index, change))
    assert kinds(grid) == {"incomplete"}
    assert words in grid.notes[0].text
    assert "er digits M=50" in grid.notes[0].text
    summary = summarize(grid.cell(Row("er"), grid.settings[0]), ACCURACY)
    assert summary is not None
    assert (summary.n, summary.expected, summary.partial) == (2, 3, True)


def test_offline_needs_only_its_last_row():
    runs = synthetic_runs(grid_cells(["offline", "er"], [("digits", 5, 50)]), range(2))
    assert Grid(runs).notes == []
    lost = broken(runs, int(np.flatnonzero(runs["method"] == "offline")[0]), lambda m: m.__setitem__(4, np.nan))
    assert "incomplete" in kinds(Grid(lost))


def test_a_joint_method_of_the_users_own_needs_only_its_last_row():
    runs = synthetic_runs(grid_cells(["offline", "er"], [("digits", 5, 50)]), range(2))
    own = runs["method"] == "offline"
    runs = runs.assign(method=runs["method"].mask(own, "all_at_once"), memory=50)
    grid = Grid(runs)
    assert kinds(grid) == {"unknown-method"}
    summary = summarize(grid.cell(Row("all_at_once"), grid.settings[0]), ACCURACY)
    assert summary is not None
    assert summary.n == 2
    drawn = {d.name: d.data for d in all_figures(Evidence(grid))}
    (curve,) = [r for r in drawn["incremental_accuracy"] if r["method"] == "all_at_once"]
    assert (curve["after_task"], curve["mean"]) == (5, pytest.approx(summary.mean))
    assert {r["method"] for r in drawn["matrices_digits_t5_m50"]} == {"er"}


def test_a_stream_of_one_task_is_no_joint_method():
    runs = synthetic_runs([Cell("er", "digits", 1, 50)], range(2))
    assert not any(r.joint for r in Grid(runs).runs)


def test_one_seed_only_has_no_spread_and_is_said():
    grid = Grid(digits_runs(range(1)))
    assert kinds(grid) == {"one-seed"}
    summary = summarize(grid.cell(Row("er"), grid.settings[0]), ACCURACY)
    assert summary is not None
    assert np.isnan(summary.spread)


def test_unknown_methods_are_kept_and_named(digits_frame):
    grid = Grid(digits_frame.assign(method=digits_frame["method"].replace("er", "er_of_mine")))
    assert kinds(grid) == {"unknown-method"}
    assert Row("er_of_mine") in grid.rows(grid.settings)


def other_contents(runs: pd.DataFrame, odd: list[bool], **over: str) -> pd.DataFrame:
    """The runs, some of them on other data under the same name."""
    names = ["other" if o else f for o, f in zip(odd, runs["data_fingerprint"], strict=True)]
    changed = {k: [v if o else was for o, was in zip(odd, runs[k], strict=True)] for k, v in over.items()}
    return runs.assign(data_fingerprint=names, **changed)


def test_the_fewer_runs_on_other_data_under_one_name_are_set_aside(digits_frame):
    odd = [s == 1 and m == "er" for s, m in zip(digits_frame["seed"], digits_frame["method"], strict=True)]
    # Later, so that finishing last is not what counts among unequal numbers.
    grid = Grid(other_contents(digits_frame, odd, finished="2021-01-01T00:00:00+00:00"))
    assert kinds(grid) == {"fingerprint"}
    assert "2 runs" in grid.notes[0].text
    assert "er digits M=50 seed 1" in grid.notes[0].text
    assert len(grid.runs) == len(digits_frame) - 2
    summary = summarize(grid.cell(Row("er"), grid.settings[0]), ACCURACY)
    assert summary is not None
    assert (summary.n, summary.partial) == (2, True)


def test_of_as_many_runs_on_either_data_the_older_are_set_aside(digits_frame):
    runs = digits_frame[digits_frame["seed"] < 2]
    odd = list(runs["seed"] == 0)
    for finished, kept in (("2021-01-01T00:00:00+00:00", {0}), ("2019-01-01T00:00:00+00:00", {1})):
        grid = Grid(other_contents(runs, odd, finished=finished))
        assert {r.seed for r in grid.runs} == kept


def test_a_rerun_on_other_data_does_not_stand_in_for_a_run(digits_frame):
    again = digits_frame[digits_frame["method"] == "er"].iloc[:1]
    again = again.assign(run_id="f" * 64, finished="2021-01-01T00:00:00+00:00", data_fingerprint="other")
    grid = Grid(pd.concat([digits_frame, again]))
    assert kinds(grid) == {"fingerprint"}
    assert len(grid.runs) == len(digits_frame)
    assert "f" * 64 not in {r.run_id for r in grid.runs}


def test_other_class_orders_for_one_seed_are_said(digits_frame):
    orders = [
        list(range(10)) if m == "er" else o
        for m, o in zip(digits_frame["method"], digits_frame["class_order"], strict=True)
    ]
    assert "unpaired" in kinds(Grid(digits_frame.assign(class_order=orders)))


def test_protocols_of_one_data_set_stand_apart(digits_frame):
    cell = Cell("er", "digits", 5, 50)
    odd = {"n_tasks": 5, "batch": 10, "replay_batch": 64, "width": 4, "precision": "fp32"}
    other = pd.DataFrame([run_row(cell, s, protocol=odd, run_id=f"{s:064d}") for s in range(3)])
    grid = Grid(pd.concat([digits_frame, other]))
    assert kinds(grid) == {"protocol"}
    assert len(grid.settings) == 3


def test_a_default_run_named_by_a_sweep_is_the_default_and_a_nameless_change_is_not():
    assert named_variant("full", {}) == ""
    assert named_variant("", {"n_proto": 3}) == "n_proto=3"
    assert named_variant("np3", {"n_proto": 3}) == "np3"
    emi = Cell("emi", "digits", 5, 50)
    runs, _ = read_runs(synthetic_runs([replace(emi, variant="full")], range(2)))
    assert {r.row.variant for r in runs} == {""}


def test_an_empty_store_makes_an_empty_grid():
    grid = Grid(digits_runs(range(1)).iloc[:0])
    assert grid.settings == []
    assert grid.notes == []


def test_spare_seeds_pair_the_readings_and_stay_out_of_the_tables():
    emi = Cell("emi", "cifar100", 10, 1000)
    reading = replace(emi, variant="cos", changes=(("dmi_threshold", "cos"),), shift=0.02)
    runs = pd.concat([synthetic_runs([emi], range(4)), synthetic_runs([emi, reading], range(100, 103))])
    grid = Grid(runs)
    setting = next(s for s in grid.paper_settings if s.memory == 1000 and s.dataset == "cifar100")
    assert [r.seed for r in grid.cell(Row("emi"), setting).runs] == [0, 1, 2, 3]
    assert "spare-seeds" in kinds(grid)
    (drawing,) = readings_figure(Evidence(grid))
    assert [(r["n"], r["paired"]) for r in drawing.data] == [(3, True)]
    alone = Grid(runs[runs["seed"] >= 100])
    assert alone.cell(Row("emi"), setting).n == 3


def test_a_memory_free_run_serves_no_column_of_another_stream_batch():
    def protocol(**over: int) -> dict[str, object]:
        return {"n_tasks": 5, "batch": 10, "replay_batch": 64, "width": 20, "precision": "fp32"} | over

    er, finetune, offline = (Cell(m, "digits", 5, 50 if m == "er" else 0) for m in ("er", "finetune", "offline"))
    rows = [run_row(er, s, protocol=protocol(batch=4, replay_batch=16)) for s in range(2)]
    rows += [run_row(c, s, protocol=protocol()) for c in (finetune, offline) for s in range(2)]
    mine = {"title": "Mine", "uses_memory": False, "joint": True}  # a joint method of the user's own serves it too
    rows += [r | {"method": "mine", "facts": mine, "run_id": f"{r['seed']:064d}"} for r in rows[-2:]]
    grid = Grid(pd.DataFrame(rows))
    (setting,) = grid.settings
    assert [grid.cell(Row(m), setting).n for m in ("er", "finetune", "offline", "mine")] == [2, 0, 2, 2]


def test_a_part_of_a_data_set_is_a_column_of_its_own_and_not_other_data(digits_frame):
    part = {"image_size": 4, "train_per_class": 70, "test_per_class": 20}
    ids = [f"{i:064x}" for i in range(len(digits_frame))]
    protocols = [p | part for p in digits_frame["protocol"]]
    smaller = digits_frame.assign(data_fingerprint="of the part", protocol=protocols, run_id=ids)
    newer = [p | dict.fromkeys(part) for p in digits_frame["protocol"]]  # as results are written now: all of the data
    whole = digits_frame.assign(protocol=[new if i % 2 else p for i, (p, new) in enumerate(
        zip(digits_frame["protocol"], newer, strict=True))])  # fmt: skip
    grid = Grid(pd.concat([whole, smaller]))
    assert "fingerprint" not in kinds(grid)
    assert len(grid.runs) == 2 * len(digits_frame)
    settings = len(Grid(digits_frame).settings)
    assert len(grid.settings) == 2 * settings
    assert len({s.slug for s in grid.settings}) == 2 * settings
