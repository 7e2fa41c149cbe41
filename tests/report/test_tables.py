"""Every number of every table, recomputed from the tidy rows by other code, and read back from the LaTeX."""

from __future__ import annotations

import io
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats

from emi_bench import reference
from emi_bench.report.axes import ACCURACY, FORGETTING_RAPTOR
from emi_bench.report.cells import Summary
from emi_bench.report.evidence import Evidence
from emi_bench.report.grid import Grid
from emi_bench.report.latex import latex_table, latex_value
from emi_bench.report.model import Line, Table, Text, Value, mark_best
from emi_bench.report.plain import csv_table, markdown_table, plain_value
from emi_bench.report.sentences.answers import Ours
from tests.report.synthetic import digits_runs, grid_cells, run_row, synthetic_runs


def by_name(grid: Grid, **options: Any) -> dict[str, Table]:
    return {t.name: t for t in Evidence(grid, **options).tables}


def metric_by_pandas(rows: pd.DataFrame, metric: str) -> pd.Series:
    """One value a run from the tidy rows, percent; written against the formulas, not against emi_bench.metrics."""
    last = rows[rows["after_task"] == rows["n_tasks"]]
    if metric == "average_accuracy":
        return last.groupby("run_id")["accuracy"].mean() * 100
    rows = rows[rows["method"] != "offline"]
    if metric == "average_incremental_accuracy":
        return rows.groupby(["run_id", "after_task"])["accuracy"].mean().groupby("run_id").mean() * 100
    final = last.set_index(["run_id", "task"])["accuracy"]
    if metric == "forgetting":
        early = rows[(rows["after_task"] < rows["n_tasks"])]
        drop = early.groupby(["run_id", "task"])["accuracy"].max() - final
        return drop.dropna().groupby("run_id").mean() * 100
    drop = rows.groupby(["run_id", "task"])["accuracy"].max() - final
    return drop.dropna().groupby("run_id").mean() * 100


def expected_cells(runs: pd.DataFrame, rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """mean, std, count by method, dataset, memory, of the default variants."""
    default = runs[runs["variant"] == ""].set_index("run_id")
    values = metric_by_pandas(rows[rows["variant"] == ""], metric)
    frame = default.loc[values.index, ["method", "dataset", "memory"]].assign(value=values)
    return frame.groupby(["method", "dataset", "memory"])["value"].agg(["mean", "std", "count"])


@pytest.mark.parametrize(
    ("name", "metric"),
    [("table1", "average_accuracy"), ("table2", "forgetting"), ("incremental", "average_incremental_accuracy")],
)
def test_every_number_is_what_pandas_computes_from_the_tidy_rows(paper_runs, paper_rows, paper_grid, name, metric):
    table = by_name(paper_grid)[name]
    expected = expected_cells(paper_runs, paper_rows, metric)
    seen = 0
    for line in table.lines:
        for value in line.values:
            key = dict(value.key)
            free = key["method"] in ("finetune", "offline")
            index = (key["method"], key["dataset"], 0 if free else key["memory"])
            if index not in expected.index:
                assert value.summary is None
                continue
            mean, std, count = expected.loc[index]
            assert value.summary is not None
            assert value.summary.mean == pytest.approx(mean, rel=1e-12)
            assert value.summary.spread == pytest.approx(std, rel=1e-9)
            assert value.summary.n == count
            seen += 1
    assert seen > 40


def test_the_reference_frameworks_forgetting_can_be_asked_for(paper_runs, paper_rows, paper_grid):
    table = by_name(paper_grid, forgetting=FORGETTING_RAPTOR)["table2"]
    expected = expected_cells(paper_runs, paper_rows, "forgetting_raptor")
    for line in table.lines:
        for value in line.values:
            key = dict(value.key)
            index = (key["method"], key["dataset"], key["memory"])
            if value.summary is not None:
                assert value.summary.mean == pytest.approx(expected.loc[index, "mean"])
    assert "all T tasks" in table.caption.plain


@pytest.mark.parametrize("name", ["table3", "table4", "table5"])
def test_every_study_number_is_the_mean_of_the_runs_with_those_constants(paper_runs, paper_grid, name):
    table = by_name(paper_grid)[name]
    emi = paper_runs[(paper_runs["method"] == "emi") & (paper_runs["memory"] == 1000)]
    base = {"alpha": 0.1, "alpha_b": 0.2, "n_proto": 6, "dualnet": 1, "dmi": 1, "rmi": 1, "smi": 1}
    for line in table.lines:
        for value in line.values:
            wanted = base | {k: v for k, v in dict(value.key).items() if k in base}
            hits = emi[[all(c[k] == v for k, v in wanted.items()) and c["dmi_threshold"] == "exp"
                        and c["fast_net"] == "chain" for c in emi["config"]]]  # fmt: skip
            assert value.summary is not None
            assert value.summary.mean == pytest.approx(hits["average_accuracy"].mean() * 100)
            assert value.summary.n == len(hits) == 4


def test_study_tables_have_the_papers_shape(paper_grid):
    tables = by_name(paper_grid)
    assert [tuple(t.plain == "✓" for t in line.labels) for line in tables["table3"].lines] == [
        tuple(bool(x) for x in row) for row in reference.studies("table3")[["dualnet", "dmi", "rmi", "smi"]].to_numpy()
    ]
    assert [len(line.values) for line in tables["table4"].lines] == [4] * 4
    assert [c.plain for c in tables["table5"].columns] == ["1", "3", "6", "9", "12"]
    assert [c.plain for c in tables["table6"].columns] == ["OCM", "OnPro", "EMI"]


def test_table_six_is_the_mean_time_and_memory(paper_runs, paper_grid):
    table = by_name(paper_grid)["table6"]
    for line, column, scale in zip(table.lines, ("ms_per_batch", "peak_memory_bytes"), (1, 1e-9), strict=True):
        for value in line.values:
            key = dict(value.key)
            hits = paper_runs[(paper_runs["method"] == key["method"]) & (paper_runs["dataset"] == "cifar10")
                              & (paper_runs["memory"] == key["memory"])]  # fmt: skip
            assert value.summary is not None
            assert value.summary.mean == pytest.approx(hits[column].mean() * scale)


def parse_latex(text: str) -> list[list[str]]:
    body = text[text.index(r"\midrule") : text.index(r"\bottomrule")]
    return [
        [c.strip() for c in line.removesuffix(r"\\").split("&")] for line in body.splitlines() if line.endswith(r"\\")
    ]


@pytest.mark.parametrize("which", ["paper", "digits"])
def test_latex_read_back_gives_the_frame_cell_by_cell(paper_grid, digits_grid, which):
    for table in Evidence(paper_grid if which == "paper" else digits_grid).tables:
        rows = parse_latex(latex_table(table))
        frame = pd.read_csv(io.StringIO(csv_table(table)))
        cells = [c for row in rows for c in row[len(table.stub) :]]
        assert len(cells) == len(frame)
        for text, (_, record) in zip(cells, frame.iterrows(), strict=True):
            if record["n"] == 0:
                assert text == "--"
                continue
            digits = 2 if record["metric"] == "peak_memory_bytes" else 1
            mean, *spread = re.findall(r"-?\d+\.\d+", text.replace("$-$", "-"))
            assert float(mean) == pytest.approx(record["mean"], abs=0.5 * 10**-digits + 1e-9)
            if spread:
                assert float(spread[0]) == pytest.approx(record["spread"], abs=0.5 * 10**-digits + 1e-9)
            assert (r"\textbf" in text) == bool(record["best"])
            assert (r"\underline" in text) == bool(record["second"] and not record["best"])
            assert (r"\dagger" in text) == (record["n"] < record["expected"])
            if r"\dagger" in text:
                assert f"$n$={int(record['n'])}/{int(record['expected'])}" in text


def test_missing_is_an_en_dash_and_partial_a_dagger_with_its_count(paper_grid):
    text = latex_table(by_name(paper_grid)["table1"])
    scr = next(line for line in text.splitlines() if line.startswith("SCR"))
    assert scr.split("&")[2].strip() == "--"
    assert r"\textsuperscript{$\dagger$\,$n$=3/10}" in next(x for x in text.splitlines() if x.startswith("EMI"))
    assert "– n" not in markdown_table(by_name(paper_grid)["table1"])


def lines(*means: float | None, compete: bool = True) -> list[Line]:
    one = [None if m is None else Summary(m, 1.0, 3, 3) for m in means]
    return [Line((Text(str(i)),), (Value(s),), compete=compete) for i, s in enumerate(one)]


def test_bold_goes_by_unrounded_values_and_ties_share_it():
    (block,) = mark_best([lines(50.01, 50.04, 50.04, 49.9)], higher=True)
    assert [x.values[0].best for x in block] == [False, True, True, False]
    assert [x.values[0].second for x in block] == [True, False, False, False]
    (block,) = mark_best([lines(3.0, 1.0, None)], higher=False)
    assert [x.values[0].best for x in block] == [False, True, False]


def test_a_single_competitor_is_not_bold_and_bounds_never_are():
    assert not mark_best([lines(50.0)], higher=True)[0][0].values[0].best
    bounds, rest = mark_best([lines(99.0, compete=False), lines(1.0, 2.0)], higher=True)
    assert not bounds[0].values[0].best
    assert rest[1].values[0].best


def test_underline_is_a_switch_and_one_seed_has_no_spread():
    second = Value(Summary(50.0, 1.0, 3, 3), second=True)
    assert latex_value(second) == r"\underline{50.0}\,$\pm$\,1.0"
    assert latex_value(second, underline=False) == r"50.0\,$\pm$\,1.0"
    alone = Value(Summary(50.0, float("nan"), 1, 10))
    assert latex_value(alone) == r"50.0\textsuperscript{$\dagger$\,$n$=1/10}"
    assert plain_value(alone) == "50.0 † n=1/10"


def test_layout_is_the_papers(paper_grid):
    text = latex_table(by_name(paper_grid)["table1"])
    assert r"\begin{tabular}{l|ccc|ccc|ccc}" in text
    assert r" & \multicolumn{3}{c|}{\textbf{CIFAR-10} (5 tasks)}" in text
    assert r"\textbf{Method} & $M=0.2k$ & $M=0.5k$ & $M=1k$ & $M=0.5k$" in text
    rows = [row[0] for row in parse_latex(text)]
    assert [r.split("~")[0] for r in rows] == [
        "fine-tune", "offline", "AGEM", "ER", "MIR", "GSS", "ASER", "GDUMB", "DVC", "SCR", "PCR", "SSD", "OCM", "OnPro",
        "EMI (Ours)",
    ]  # fmt: skip
    rules = [line for line in text.splitlines() if line.startswith((r"\midrule", "fine", "offline", "AGEM"))]
    assert [r[:5] for r in rules] == ["\\midr", "fine-", "offli", "\\midr", "AGEM~"]


def test_every_cited_key_is_in_the_bibliography(paper_grid):
    keys = set(re.findall(r"\\cite\{(.+?)\}", "".join(latex_table(t) for t in Evidence(paper_grid).tables)))
    known = set(re.findall(r"@\w+\{(.+?),", reference.text("references.bib")))
    assert keys
    assert keys <= known


@pytest.mark.parametrize("spread", ["std", "sem", "ci95"])
def test_the_spread_is_the_one_asked_for_and_named_in_the_caption(spread):
    runs = digits_runs(range(5))
    table = by_name(Grid(runs), spread=spread)["accuracy"]
    er = runs[(runs["method"] == "er") & (runs["memory"] == 50)]["average_accuracy"] * 100
    value = next(line for line in table.lines if line.labels[0].plain == "ER").values[0]
    sem = er.std(ddof=1) / np.sqrt(5)
    wanted = {"std": er.std(ddof=1), "sem": sem, "ci95": stats.t.interval(0.95, 4, er.mean(), sem)[1] - er.mean()}
    assert value.summary is not None
    assert value.summary.spread == pytest.approx(wanted[spread])
    word = {"std": "ddof=1", "sem": "standard error", "ci95": "95 % t interval"}[spread]
    assert word in table.caption.plain
    assert "n = 5 runs" in table.caption.plain


def test_memory_free_runs_serve_every_memory_column(digits_grid):
    table = by_name(digits_grid)["accuracy"]
    finetune = next(line for line in table.lines if line.labels[0].plain == "fine-tune")
    assert len({v.summary.mean for v in finetune.values if v.summary}) == 1
    assert [v.summary is not None for v in finetune.values] == [True, True]


def test_a_users_own_method_and_data_set_get_the_same_tables():
    cells = grid_cells(["er", "my_method"], [("my_data", 4, 30)])
    table = by_name(Grid(synthetic_runs(cells, range(3))))["accuracy"]
    assert [line.labels[0].plain for line in table.lines] == ["ER", "my_method"]
    assert r"my\_method" in latex_table(table)
    assert table.groups[0][0].plain == "my_data (4 tasks)"
    assert table.groups[0][1][0].plain == "M=30"


def test_another_protocol_on_a_paper_data_set_is_not_the_papers_cell():
    cell = grid_cells(["er"], [("cifar10", 5, 200)])[0]
    odd = {"batch": 10, "replay_batch": 64, "width": 8, "precision": "fp32", "n_tasks": 5}
    runs = pd.DataFrame([run_row(cell, s, width=8, protocol=odd) for s in range(3)])
    tables = by_name(Grid(runs))
    assert "table1" not in tables
    assert "width 8" in tables["accuracy"].caption.plain


def test_a_variant_has_a_row_of_its_own_below_its_method():
    from dataclasses import replace

    er = grid_cells(["er"], [("digits", 5, 50)])[0]
    variant = replace(er, variant="slow", changes=(("lr", 0.01),))
    both = Grid(synthetic_runs([er, variant], range(2)))
    assert [x.labels[0].plain for x in by_name(both)["accuracy"].lines] == ["ER", "ER [slow]"]
    only = Grid(synthetic_runs([variant], range(2)))
    assert [x.labels[0].plain for x in by_name(only)["accuracy"].lines] == ["ER [slow]"]


def test_tables_of_the_same_input_are_byte_identical_whatever_its_order(paper_runs):
    one = [latex_table(t) + csv_table(t) + markdown_table(t) for t in Evidence(Grid(paper_runs)).tables]
    shuffled = paper_runs.sample(frac=1, random_state=3)
    two = [latex_table(t) + csv_table(t) + markdown_table(t) for t in Evidence(Grid(shuffled)).tables]
    assert one == two


def test_studies_are_ordered_before_additional_tables(paper_grid):
    names = [t.name for t in Evidence(paper_grid).tables]
    assert names[:6] == [f"table{i}" for i in range(1, 7)]
    assert all(a != b for a, b in pairwise(names))


def test_markdown_has_the_mean_the_spread_and_the_caption(digits_grid):
    text = markdown_table(by_name(digits_grid)["accuracy"])
    assert re.search(r"\| EMI +\| \S+ ± \d", text)
    assert ACCURACY.title in text


EFFICIENCY = [("cifar10", 5, 1000)]


def timed(seeds: range, ms: float, methods: tuple[str, ...] = ("ocm", "onpro", "emi")) -> pd.DataFrame:
    """SYNTHETIC runs of Table VI's column that took `ms` a batch."""
    return synthetic_runs(grid_cells(methods, EFFICIENCY), seeds).assign(ms_per_batch=ms)


def test_table_six_takes_the_efficiency_runs_where_there_are_some():
    packed = synthetic_runs(grid_cells(settings=[("cifar10", 5, 200), *EFFICIENCY])).assign(ms_per_batch=99.0)
    grid = Grid(pd.concat([packed, timed(range(200, 203), 7.0)]))
    table = by_name(grid)["table6"]
    for value in table.lines[0].values:
        assert value.summary is not None
        assert (value.summary.mean, value.summary.n, value.summary.partial) == (7.0, 3, False)
        assert dict(value.key)["memory"] == 1000
    assert "shared" not in table.caption.plain
    assert {dict(v.key)["memory"]: v.summary.n for v in by_name(grid)["table1"].lines[-1].values if v.summary} == {
        200: 10,
        1000: 10,
    }
    cost = Ours(grid, {}).cost("emi", "ms_per_batch")
    assert cost is not None
    assert cost.mean == 7.0


def test_efficiency_runs_alone_are_complete_and_a_missing_one_is_partial():
    runs = timed(range(200, 203), 7.0)
    values = by_name(Grid(runs))["table6"].lines[0].values
    assert [(v.summary.n, v.summary.partial) for v in values if v.summary] == [(3, False)] * 3
    values = by_name(Grid(runs.iloc[1:]))["table6"].lines[0].values
    assert [(v.summary.n, v.summary.expected) for v in values if v.summary] == [(2, 3), (3, 3), (3, 3)]


def test_a_method_without_an_efficiency_run_has_no_time_beside_those_that_have_one():
    grid = Grid(pd.concat([timed(range(10), 99.0), timed(range(200, 203), 7.0, ("ocm", "emi"))]))
    assert [v.summary and v.summary.mean for v in by_name(grid)["table6"].lines[0].values] == [7.0, None, 7.0]


def test_times_of_packed_runs_are_called_so():
    table = by_name(Grid(timed(range(10), 99.0)))["table6"]
    assert [(v.summary.mean, v.summary.n) for v in table.lines[0].values if v.summary] == [(99.0, 10)] * 3
    assert "may have shared" in table.caption.plain


def test_the_efficiency_seeds_are_the_sweeps():
    sweep = yaml.safe_load((Path(__file__).parents[2] / "sweeps" / "efficiency.yaml").read_text("utf-8"))
    assert reference.settings()["efficiency"]["seeds"] == sweep["seeds"]
    assert reference.settings()["efficiency"]["methods"] == sweep["methods"]
