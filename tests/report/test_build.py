"""The whole report from files: what is written, how it is asked for, and that LaTeX accepts it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from emi_bench.cli.report import register, table_text
from emi_bench.errors import UserError
from emi_bench.report.build import build, build_from
from emi_bench.report.cells import Summary
from emi_bench.report.latex import latex_table, latex_value
from emi_bench.report.model import Value
from emi_bench.report.options import ReportOptions
from emi_bench.report.planned import read_planned
from emi_bench.report.written import MANIFEST
from tests.report.synthetic import digits_runs
from tests.report.synthetic_store import synthetic_features, write_store

SWEEP = """\
name: mine
methods: [finetune, er, {name: emi, variants: {default: {}}}, mir]
settings:
  - dataset: digits
    memory: [50, 100, 200]
seeds: 4
report: {tables: [1], figures: [incremental]}
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    """SYNTHETIC runs as files, features of one method beside."""
    root = tmp_path_factory.mktemp("store")
    runs = digits_runs()
    write_store(runs, root)
    (root / "_features").mkdir()
    for run_id in runs.query("method == 'er'")["run_id"]:
        synthetic_features(run_id, n=60).to_parquet(root / "_features" / f"{run_id}.parquet")
    return root


@pytest.fixture(scope="module")
def app() -> typer.Typer:
    app = typer.Typer()
    register(app)
    return app


def test_a_report_is_made_from_a_stores_files(store, tmp_path):
    made = build(store, tmp_path / "out")
    names = {str(p.relative_to(tmp_path / "out")) for p in made.files}
    tables = {f"tables/{n}" for n in ("accuracy.tex", "accuracy.csv", "accuracy.md", "preview.tex", "references.bib")}
    assert {"index.html", "notes.md", "differences.csv", "figures/incremental_accuracy.pdf", *tables} <= names
    assert any(n.startswith("figures/tsne_") for n in names)
    assert made.open_first.name == "index.html"
    assert all(p.exists() for p in made.files)


def test_the_same_store_gives_the_same_bytes(store, tmp_path):
    a, b = (build(store, tmp_path / n, ReportOptions(only=("tables", "html"))) for n in "ab")
    assert [p.read_bytes() for p in a.files] == [p.read_bytes() for p in b.files]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_rebuild_removes_what_the_report_no_longer_has_and_nothing_else(digits_frame, tmp_path):
    out, fresh, only = tmp_path / "out", tmp_path / "fresh", ("tables", "html")
    variant = digits_frame[digits_frame["method"] == "er"].assign(dataset="gone")
    build_from(pd.concat([digits_frame, variant]), out, ReportOptions(only=only))
    assert (out / "tables" / "efficiency_gone_t5_m100.tex").exists()
    mine = {"notes_of_mine.md": b"x", "tables/mine.tex": b"y", "figures/mine.png": b"z"}
    for name, content in mine.items():
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_bytes(content)
    build_from(digits_frame, out, ReportOptions(only=only))
    build_from(digits_frame, fresh, ReportOptions(only=only))
    assert contents(out) == contents(fresh) | mine


def test_a_rebuild_of_one_part_leaves_the_others(digits_frame, tmp_path):
    build_from(digits_frame, tmp_path, ReportOptions(only=("tables", "html")))
    before = contents(tmp_path)
    build_from(digits_frame, tmp_path, ReportOptions(only=("tables",)))
    assert contents(tmp_path) == before
    build_from(digits_frame[digits_frame["method"] == "er"], tmp_path, ReportOptions(only=("tables",)))
    assert (tmp_path / "index.html").exists()
    assert not (tmp_path / "differences.csv").exists()


def test_a_list_of_files_that_was_tampered_with_removes_nothing_outside(digits_frame, tmp_path):
    out, safe = tmp_path / "out", tmp_path / "safe.txt"
    safe.write_text("mine")
    build_from(digits_frame, out, ReportOptions(only=("tables",)))
    (out / "folder").mkdir()
    (out / "link").symlink_to(tmp_path)
    listed = out / MANIFEST
    listed.write_text(listed.read_text() + f"../safe.txt\n{safe}\nlink/safe.txt\nfolder\n\n.\n")
    build_from(digits_frame, out, ReportOptions(only=("tables",)))
    assert safe.read_text() == "mine"
    assert (out / "folder").is_dir()


def test_only_what_is_asked_for_is_written(store, tmp_path):
    made = build(store, tmp_path, ReportOptions(only=("html",)))
    assert [p.name for p in made.files] == ["index.html"]
    with pytest.raises(UserError, match="unknown part 'pictures'"):
        build(store, tmp_path, ReportOptions(only=("pictures",)))
    with pytest.raises(UserError, match="unknown spread"):
        build(store, tmp_path, ReportOptions(spread="iqr"))


def test_a_sweep_narrows_the_report_and_its_plan_shows_what_is_missing(store, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(SWEEP)
    made = build(store, tmp_path / "out", ReportOptions(sweeps=[path], only=("tables",)))
    table = pd.read_csv(tmp_path / "out/tables/accuracy.csv")
    assert set(table["method"]) == {"finetune", "er", "emi", "mir"}
    assert set(table["memory"]) == {50, 100, 200}
    assert (table[table["method"] == "mir"]["n"] == 0).all()
    assert set(table[table["n"] > 0]["expected"]) == {4}
    assert "ocm" not in {r.row.method for r in made.grid.runs}


def test_a_sweep_chooses_among_the_papers_figures_and_features_come_through_the_store_wherever_it_is(store, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(SWEEP.replace("[incremental]", "[kde]").replace("[50, 100, 200]", "50"))
    made = build(f"file://{store}", tmp_path / "out", ReportOptions(sweeps=[path], only=("figures",)))
    kinds = {p.stem.split("_")[0] for p in made.files}
    assert {"kde", "matrices"} <= kinds
    assert not {"incremental", "tsne"} & kinds


def test_a_sweep_without_a_run_in_a_full_store_is_said_to_have_none(digits_frame, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(SWEEP.replace("seeds: 4", "seeds: [77]"))
    made = build_from(digits_frame, tmp_path / "out", ReportOptions(sweeps=[path], only=("tables",)))
    assert "none of the 21 runs in the store" in made.lines[0]


def test_figures_are_those_of_all_sweeps(tmp_path):
    paths = []
    for name in ("incremental", "tsne"):
        paths.append(tmp_path / f"{name}.yaml")
        paths[-1].write_text(SWEEP.replace("[incremental]", f"[{name}]"))
    assert read_planned(paths).figures == {"incremental", "tsne"}
    assert read_planned([]).figures == frozenset()


def test_a_figure_that_is_none_of_the_papers_is_refused(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(SWEEP.replace("[incremental]", "[pie]"))
    with pytest.raises(UserError, match="pie"):
        read_planned([path])


def test_a_file_that_is_no_sweep_is_named(tmp_path):
    with pytest.raises(UserError, match="no sweep file"):
        read_planned([tmp_path / "absent.yaml"])
    (tmp_path / "bad.yaml").write_text("name: x\n")
    with pytest.raises(UserError, match=r"bad\.yaml.* is missing"):
        read_planned([tmp_path / "bad.yaml"])


def test_the_command_says_what_to_open(app, store, tmp_path):
    result = CliRunner().invoke(
        app, ["report", "--results", str(store), "--out", str(tmp_path), "--only", "tables,html"]
    )
    assert result.exit_code == 0, result.output
    assert result.output.strip().endswith(str(tmp_path / "index.html"))


def test_an_empty_store_is_no_error_and_says_what_to_run(app, tmp_path):
    (tmp_path / "none").mkdir()
    result = CliRunner().invoke(app, ["report", "--results", str(tmp_path / "none"), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "emi-bench sweep demo" in result.output
    with pytest.raises(UserError, match="no runs for table 1"):
        table_text(1, "md", str(tmp_path / "none"), ReportOptions())


@pytest.mark.parametrize(
    ("format_", "start"), [("md", "**Average accuracy**"), ("latex", r"% \usepackage"), ("csv", "method,")]
)
def test_a_table_prints_in_the_terminal(app, store, format_, start):
    result = CliRunner().invoke(app, ["table1", "--results", str(store), "--format", format_])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(start)


def test_tables_one_and_two_are_what_pandas_makes_of_the_files(paper_runs, tmp_path):
    """From the Parquet files to the printed table by other code: pandas alone, none of the package's functions."""
    write_store(paper_runs[paper_runs["variant"] == ""], tmp_path / "store")
    four = tmp_path / "four.yaml"  # these runs have four seeds: with ten planned all would be partial, and none bold
    four.write_text((Path(__file__).parents[2] / "sweeps" / "table1.yaml").read_text().replace("seeds: 10", "seeds: 4"))
    build(tmp_path / "store", tmp_path / "out", ReportOptions(only=("tables",), sweeps=[four]))
    rows = pd.read_parquet(sorted((tmp_path / "store").rglob("*.parquet")))
    at = ["method", "dataset", "memory", "run_id"]
    last = rows[rows["after_task"] == rows["n_tasks"]]
    accuracy = last.groupby(at)["accuracy"].mean()
    before = rows[rows["after_task"] < rows["n_tasks"]].groupby([*at, "task"])["accuracy"].max()
    forgetting = (before - last.set_index([*at, "task"])["accuracy"]).dropna().groupby(at).mean()
    for name, values in (("table1", accuracy), ("table2", forgetting)):
        expected = (values * 100).groupby(["method", "dataset", "memory"]).agg(["mean", "std", "count"])
        found = pd.read_csv(tmp_path / "out" / "tables" / f"{name}.csv")
        found = found[found["n"] > 0]
        for _, cell in found.iterrows():
            memory = 0 if cell["method"] in ("finetune", "offline") else cell["memory"]
            mean, std, count = expected.loc[(cell["method"], cell["dataset"], memory)]
            assert (cell["mean"], cell["spread"], cell["n"]) == pytest.approx((mean, std, count), rel=1e-9)
        with_memory = expected[expected.index.get_level_values("memory") > 0]
        assert len(found[~found["method"].isin(["finetune", "offline"])]) == len(with_memory) > 40
        table = found.pivot_table(index=["dataset", "memory"], columns="method", values="mean")
        best = table.drop(columns=["finetune", "offline"], errors="ignore").dropna(how="all")
        best = best.idxmax(axis=1) if name == "table1" else best.idxmin(axis=1)
        bold = found[found["best"] == 1]
        whole = found.groupby(["dataset", "memory"])["n"].nunique() == 1  # all complete, so that all compete
        assert whole[best.index].sum() >= 1
        for key, method in best[whole[best.index]].items():
            assert method in set(bold.set_index(["dataset", "memory"]).loc[[key], "method"])


CLASSES = {"article": r"\documentclass[10pt]{article}", "IEEEtran": r"\documentclass[journal]{IEEEtran}"}


def complaints(folder: Path, name: str) -> list[str]:
    """Everything that LaTeX says about boxes, references and packages, after all its passes."""
    for command in (["pdflatex"], ["bibtex"], ["pdflatex"], ["pdflatex"]):
        options = ["-interaction=nonstopmode", "-halt-on-error"] if command[0] == "pdflatex" else []
        done = subprocess.run([*command, *options, name], cwd=folder, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout[-3000:]
    log = (folder / f"{name}.log").read_text("utf-8", "replace")
    return re.findall(r"(?:Overfull|Underfull|LaTeX Warning|Package \w+ Warning).*", log)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on this machine")
@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize(
    "which", [pytest.param(name, marks=pytest.mark.slow) for name in ("partial", "digits", "own")] + ["paper"]
)
def test_latex_compiles_without_a_word(paper_runs, digits_frame, tmp_path, which, kind):
    own = digits_frame.assign(method=digits_frame["method"].replace("er", "my_100%_method"))
    runs = {"paper": paper_runs, "partial": paper_runs[paper_runs["method"].isin(["er", "emi"])], "own": own}
    build_from(runs.get(which, digits_frame), tmp_path, ReportOptions(only=("tables",), paper_grid=which == "paper"))
    folder = tmp_path / "tables"
    names = sorted(p.stem for p in folder.glob("*.tex") if p.stem != "preview")
    if kind == "IEEEtran" and subprocess.run(["kpsewhich", "IEEEtran.cls"], capture_output=True).returncode:
        pytest.skip("no IEEEtran on this machine")
    for name in names:
        assert (folder / f"{name}.tex").read_text().startswith(r"% \usepackage{amsmath,amssymb,booktabs,graphicx}")
    body = "\n".join(rf"\input{{{name}}}" for name in names)
    text = rf"""{CLASSES[kind]}
\usepackage{{amsmath,amssymb,booktabs,graphicx}}
\begin{{document}}
{body}
\clearpage
\bibliographystyle{{plain}}
{{\sloppy\hbadness=10000\bibliography{{references}}}}
\end{{document}}
"""
    (folder / "mine.tex").write_text(text)
    assert complaints(folder, "mine") == []
    assert [c for c in complaints(folder, "preview") if "Overfull" in c or "undefined" in c] == []


def test_a_narrow_table_takes_one_column_and_minus_is_a_minus(digits_evidence, paper_evidence):
    texts = {t.name: latex_table(t) for t in [*digits_evidence.tables, *paper_evidence.tables]}
    assert r"\begin{table}" in texts["accuracy"]
    assert r"\begin{table}" in texts["table3"]
    assert r"\begin{table*}" in texts["table1"]
    assert latex_value(Value(Summary(-0.31, 1.0, 3, 3))) == r"$-$0.3\,$\pm$\,1.0"
