"""The way to the end, and what it cost: the figure and the two sections."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from emi_bench import anytime, load_anytime, load_runs
from emi_bench.data import load
from emi_bench.report.build import build
from emi_bench.report.evidence import Evidence
from emi_bench.report.figures.anytime import over_steps
from emi_bench.report.figures.tradeoffs import budget, cost
from emi_bench.report.grid import Grid
from emi_bench.report.options import ReportOptions
from emi_bench.report.watched import equal_compute, short_stream_words, while_the_stream_runs
from emi_bench.run.execute import execute
from emi_bench.run.resolve import resolve
from emi_bench.store import Store
from emi_bench.store.beside import curve_reader
from tests.synthetic import register_blobs

SMALL = {"batch": 4, "replay_batch": 4, "width": 2}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ER watched on two seeds, fine-tune not; and at a budget, ER and ER with three updates a batch."""
    register_blobs("paced", classes=4, n_tasks=2, per_class=16)
    path = tmp_path_factory.mktemp("results")
    asked = [resolve("er", "paced", memory=8, seed=s, protocol=SMALL | {"anytime": {"every": 3}}) for s in (0, 1)]
    asked += [resolve("finetune", "paced", seed=s, protocol=SMALL) for s in (0, 1)]
    asked += [
        resolve("er", "paced", memory=8, config={"mem_iters": n}, protocol=SMALL | {"budget": "realtime"})
        for n in (1, 3)
    ]
    for spec in asked:
        execute(spec, Store(path), lambda: load("paced"))
    return path


@pytest.fixture
def evidence(results: Path) -> Evidence:
    return Evidence(Grid(load_runs(results)), curves=curve_reader(results))


def test_the_curve_shows_the_watched_runs_alone(results: Path, evidence: Evidence) -> None:
    (drawing,) = over_steps(evidence)
    assert {r["method"] for r in drawing.data} == {"er"}
    assert {r["n"] for r in drawing.data} == {2}
    frame = load_anytime(results)
    curves = [anytime.anytime_accuracy(anytime.curve_of(rows)) for _, rows in frame.groupby("run_id")]
    assert [r["mean"] for r in drawing.data] == pytest.approx((50 * (curves[0] + curves[1])).tolist())
    assert drawing.data[0]["step"] == 3


def test_the_table_beside_it(results: Path, evidence: Evidence) -> None:
    section = while_the_stream_runs(evidence)
    assert section is not None
    (row,) = csv.DictReader(io.StringIO(section.files["tables/anytime.csv"]))
    found = [anytime.summary(rows) for _, rows in load_anytime(results).groupby("run_id")]
    assert float(row["aaa"]) == pytest.approx(50 * sum(f["aaa"] for f in found))
    assert float(row["wc_acc"]) == pytest.approx(50 * sum(f["wc_acc"] for f in found))
    assert "AAA" in section.html


def test_rows_at_equal_compute_say_what_they_cost(evidence: Evidence) -> None:
    section = equal_compute(evidence)
    assert section is not None
    rows = list(csv.DictReader(io.StringIO(section.files["tables/budget.csv"])))
    assert {(float(r["cost"]), int(float(r["train_every"]))) for r in rows} == {(1.0, 1), (3.0, 3)}
    assert {r["budget"] for r in rows} == {"1.0"}


def test_the_figure_has_a_panel_a_budget_and_the_same_numbers(results: Path, evidence: Evidence) -> None:
    (drawing,) = budget(evidence)
    assert [ax.get_title() for ax in drawing.figure.axes] == ["real time"]
    runs = load_runs(results).query("cost.notna()")
    found = {(r["variant"], r["cost"], r["mean"]) for r in drawing.data}
    assert {c for _, c, _ in found} == {1.0, 3.0}
    assert sorted(m for *_, m in found) == pytest.approx(sorted(100 * runs["average_accuracy"]))
    (times,) = cost(evidence)
    assert "budget" not in {key for r in times.data for key in r}
    assert {r["method"] for r in times.data} == {"er", "finetune"}
    assert len(times.data) == 2  # those at a budget have a figure of their own


def test_panels_of_one_scale_show_every_point() -> None:
    """In the committed runs the best is in the last panel, above all of the first."""
    (drawing,) = budget(Evidence(Grid(load_runs(Path(__file__).parents[2] / "results" / "budget"))))
    first, last = drawing.figure.axes
    assert first.get_ylim() == last.get_ylim()
    assert first.get_ylim()[0] == 0
    assert first.get_ylim()[1] > max(float(r["mean"]) for r in drawing.data)


def test_the_page_has_them(results: Path, tmp_path: Path) -> None:
    build(results, tmp_path, ReportOptions(only=("tables", "html")))
    page = (tmp_path / "index.html").read_text()
    assert "While the stream runs" in page
    assert "At equal compute" in page
    assert (tmp_path / "tables" / "anytime.csv").exists()


def test_without_curves_and_budgets_there_is_nothing_to_say(results: Path) -> None:
    plain = Evidence(Grid(load_runs(results).query("method == 'finetune'")))
    assert while_the_stream_runs(plain) is None
    assert equal_compute(plain) is None
    assert not list(over_steps(plain))


def test_low_newest_tasks_on_digits_are_explained(evidence: Evidence) -> None:
    from dataclasses import replace

    digits = [replace(s, dataset="digits") for s in evidence.grid.settings]
    assert "through the memory" in short_stream_words(digits, {"er", "emi"})
    assert short_stream_words(digits, {"er"}) == ""
    assert short_stream_words(evidence.grid.settings, {"emi"}) == ""
