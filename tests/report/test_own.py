"""A report about the user's own method and grid, and the same at the terminal."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from emi_bench.cli import app as cli
from emi_bench.cli.options import complete_datasets, complete_methods, complete_sweeps
from emi_bench.errors import UserError
from emi_bench.facts import Facts
from emi_bench.report.axes import Row
from emi_bench.report.build import build_from
from emi_bench.report.evidence import Evidence, evidence_of
from emi_bench.report.figures.curves import incremental
from emi_bench.report.latex import latex_table
from emi_bench.report.model import Table
from emi_bench.report.options import ReportOptions, columns_of
from emi_bench.report.page.pictures import picture_of
from emi_bench.report.plain import fitted_table
from tests.report.synthetic import Cell, grid_cells, synthetic_runs
from tests.report.synthetic_store import write_store

ROOT = Path(__file__).parents[2]
MINE = Facts(title="LUCIR++", cite="me2026", bibtex="@misc{me2026, title={Mine}}", colour="#123456", marker="s")
COLUMNS = [("cifar10", 5, 200), ("cifar10", 5, 500), ("cifar100", 10, 500)]


def runs_of(*methods: str, seeds: range = range(3), **facts: Facts) -> pd.DataFrame:
    """SYNTHETIC runs; `facts` as they are stored with a run."""
    runs = synthetic_runs(grid_cells(methods, COLUMNS), seeds)
    return runs.assign(facts=[asdict(facts[m]) if m in facts else None for m in runs["method"]])


def evidence(runs: pd.DataFrame, **options: Any) -> Evidence:
    return evidence_of(runs, ReportOptions(**options))


def table1(runs: pd.DataFrame, **options: Any) -> Table:
    return next(t for t in evidence(runs, **options).tables if t.number == 1)


def titles(table: Table) -> list[list[str]]:
    return [[line.labels[0].plain for line in block] for block in table.blocks]


def test_a_plugins_method_is_shown_by_what_its_class_says_without_the_plugin(tmp_path):
    runs = runs_of("er", "emi", "mine", "other", mine=MINE)
    assert titles(table1(runs)) == [["ER"], ["LUCIR++", "other"], ["EMI (Ours)"]]
    assert r"LUCIR++~\cite{me2026}" in latex_table(table1(runs))
    build_from(runs, tmp_path, ReportOptions(only=("tables", "html")))
    assert "@misc{me2026," in (tmp_path / "tables/references.bib").read_text()
    assert "LUCIR++" in (tmp_path / "index.html").read_text()
    (curves,) = incremental(evidence(runs))
    assert "#123456" in picture_of(curves).svg


def test_the_one_method_of_a_plugin_is_ours_and_emi_is_cited():
    runs = runs_of("er", "emi", "mine", mine=MINE)
    found = evidence(runs)
    table = next(t for t in found.tables if t.number == 1)
    assert titles(table) == [["ER", "EMI", "LUCIR++ (Ours)"]]
    assert r"EMI~\cite{zhang2024emi}" in latex_table(table)
    assert {(d.ours.title, d.other.title) for d in found.differences} == {("LUCIR++", "ER"), ("LUCIR++", "EMI")}


def test_ours_can_be_any_method():
    found = evidence(runs_of("er", "ocm", "emi"), ours="er")
    assert titles(next(t for t in found.tables if t.number == 1)) == [["OCM", "EMI", "ER (Ours)"]]
    assert {d.ours for d in found.differences} == {Row("er")}
    with pytest.raises(UserError, match="no run is of a method 'errr'"):
        evidence(runs_of("er"), ours="errr")


def test_three_methods_on_two_columns_are_three_rows_and_two_columns():
    runs = runs_of("er", "mir", "scr", "ocm", "emi")
    asked = {"methods": ["er", "ocm", "emi"], "columns": ["cifar10:200", "cifar100"]}
    table = table1(runs, **asked)
    assert titles(table) == [["ER", "OCM", "EMI (Ours)"]]
    assert [(g.plain, len(c)) for g, c in table.groups] == [("CIFAR-10 (5 tasks)", 1), ("CIFAR-100 (10 tasks)", 1)]
    whole = table1(runs, paper_grid=True)
    assert (len(whole.lines), len(whole.columns)) == (15, 9)
    assert (len(table1(runs).lines), len(table1(runs).columns)) == (5, 3)


def test_a_sweep_narrows_the_table_to_what_it_asks_for(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("name: s\nmethods: [er, mir, dvc]\nsettings: [{dataset: cifar10, memory: [200, 1000]}]\nseeds: 3\n")
    table = table1(runs_of("er", "mir", "emi"), sweeps=[path])
    assert titles(table) == [["ER", "MIR", "DVC"]]
    assert [c.plain for c in table.columns] == ["M=0.2k", "M=1k"]


def test_columns_that_are_none_are_refused():
    with pytest.raises(UserError, match="names no columns"):
        columns_of(["cifar10:small"])


def test_methods_beyond_the_paper_stand_below_a_rule_before_ours():
    assert titles(table1(runs_of("finetune", "er", "er_ace", "emi"))) == [
        ["fine-tune"],
        ["ER"],
        ["ER-ACE"],
        ["EMI (Ours)"],
    ]


def test_variants_have_rows_of_their_own_below_their_method_in_every_format(tmp_path):
    er = Cell("er", "cifar10", 5, 200)
    slow = replace(er, changes=(("lr", 0.01),), shift=-0.05)
    runs = synthetic_runs([er, slow], range(3))
    table = table1(runs)
    assert titles(table) == [["ER", "ER [lr=0.01]"]]
    assert latex_table(table).count(r"\cite{chaudhry2019ER}") == 2
    build_from(runs, tmp_path, ReportOptions(only=("tables",)))
    for name in ("table1", "table2", "incremental"):
        assert all(
            f"{name}.{kind}" in {p.name for p in (tmp_path / "tables").iterdir()} for kind in ("tex", "csv", "md")
        )
        assert "ER [lr=0.01]" in (tmp_path / "tables" / f"{name}.md").read_text()
        assert ",lr=0.01," in (tmp_path / "tables" / f"{name}.csv").read_text().replace('"', "")
        assert "ER {[}lr=0.01{]}" in (tmp_path / "tables" / f"{name}.tex").read_text()


def test_variants_on_spare_seeds_do_not_stand_between_the_papers_rows():
    er = Cell("er", "cifar10", 5, 200)
    slow = replace(er, changes=(("lr", 0.01),), shift=-0.05)
    runs = pd.concat([synthetic_runs([er], range(3)), synthetic_runs([er, slow], range(100, 103))])
    found = {t.name: t for t in evidence(runs).tables}
    assert titles(found["table1"]) == [["ER"]]
    assert titles(found["variants"]) == [["ER", "ER [lr=0.01]"]]


def test_a_partial_cell_is_not_bold_over_a_complete_one():
    runs = runs_of("er", "emi", seeds=range(10))
    runs = runs[~((runs["method"] == "emi") & (runs["seed"] > 6))]
    er, emi = table1(runs).lines
    assert all(e.summary.mean < m.summary.mean for e, m in zip(er.values, emi.values, strict=True))
    assert all(v.best for v in er.values)
    assert not any(v.best or v.second for v in emi.values)
    assert not any(v.best or v.second for line in table1(runs[runs["seed"] < 5]).lines for v in line.values)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_table_fits_the_terminal(width):
    table = table1(runs_of("er", "emi"), paper_grid=True)
    text = fitted_table(table, width)
    assert max(map(len, text.splitlines())) <= width
    assert text.count("M=") == 9
    assert text.count("OnPro") == text.count("tasks)")


def test_advice_names_a_sweep_that_fills_the_table(tmp_path):
    for number, sweep in ((1, "table1"), (3, "ablation"), (4, "alpha"), (5, "prototypes"), (6, "efficiency")):
        with pytest.raises(UserError) as e:
            CliRunner().invoke(cli.app, ["table", str(number), "--results", str(tmp_path)], catch_exceptions=False)
        assert f"emi-bench sweep {sweep}`" in e.value.hint
        assert (ROOT / "sweeps" / f"{sweep}.yaml").exists()


def test_the_shell_completes_methods_data_sets_and_sweeps(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert complete_methods("em") == ["emi"]
    assert complete_datasets("cifar") == ["cifar10", "cifar100"]
    assert "sweeps/table1.yaml" in complete_sweeps("")
    assert complete_sweeps("sweeps/tab") == ["sweeps/table1.yaml"]


def test_one_method_shows_its_constants():
    result = CliRunner().invoke(cli.app, ["methods", "er"], env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    assert re.search(r"mem_iters +1 +Optimiser steps", result.output)
    assert "NAME" in CliRunner().invoke(cli.app, ["methods", "--help"]).output


def test_reports_import_no_torch_and_no_ray_and_tables_nothing_that_draws(tmp_path):
    write_store(synthetic_runs(grid_cells(["er"], [("digits", 2, 50)]), range(1)), tmp_path / "results")
    code = (
        "import sys\nfrom emi_bench.cli.app import app\n"
        "heavy = {'torch', 'torchvision', 'ray', 'matplotlib', 'fontTools', 'jinja2'}\n"
        "for words in ('table1', 'table 2 --format csv', 'report --out out'):\n"
        "    app(words.split(), standalone_mode=False)\n"
        "    drawing = {'matplotlib', 'fontTools', 'jinja2'} if words.startswith('report') else set()\n"
        "    assert not (heavy - drawing) & set(sys.modules), (words, heavy & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
