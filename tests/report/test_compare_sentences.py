"""Published against ours, and the paper's sentences against its own tables."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from emi_bench import reference
from emi_bench.report.axes import Row, papers_rows
from emi_bench.report.build import build_from
from emi_bench.report.compare import by_method, headline, several_sources, tally, verdict
from emi_bench.report.evidence import Evidence
from emi_bench.report.grid import Grid
from emi_bench.report.options import ReportOptions
from emi_bench.report.plain import csv_text
from emi_bench.report.sentences import CHECKS, Checked, check_sentences
from emi_bench.report.sentences.grades import near
from emi_bench.report.statistics import Estimate, independent
from tests.report.synthetic import Cell, digits_runs, grid_cells, matrix_of, synthetic_runs

CONTRADICTIONS = {
    "margin-cifar10", "over-ocm-2k", "over-ocm-cifar100", "over-onpro-cifar100", "tiny-small-buffer", "onpro-tiny",
    "mi-forgetting", "dualnet-gain", "synergy", "alpha-zero", "cost-unit", "cifar100-test", "scr-pcr-rows",
}  # fmt: skip


def test_reference_holds_all_cells_of_the_paper_with_source_and_protocol():
    v = reference.values(source=reference.PAPER)
    assert len(v[v["metric"] == "average_accuracy"]) == 15 * 9
    assert len(v[v["metric"] == "forgetting"]) == 13 * 9
    assert [len(reference.studies(f"table{i}")) for i in (3, 4, 5, 6)] == [7, 16, 5, 6]
    assert set(reference.values()["source"]) == set(reference.sources())
    assert all(s["protocol"] and s["title"] for s in reference.sources().values())
    assert set(v["method"]) == {row.method for row in papers_rows()}


def test_another_split_of_the_classes_is_another_cell(paper_evidence):
    """CIFAR-100 in 20 tasks has values of its own, which are not held against runs of 10."""
    v = reference.values("average_accuracy")
    assert (v[(v["source"] == "erace2022") & (v["dataset"] == "cifar100")]["n_tasks"] == 20).all()
    found = [c for c in paper_evidence.compared if c.source.startswith("erace2022")]
    assert {(c.method, c.dataset) for c in found} == {("er", "cifar10"), ("mir", "cifar10")}  # of the paper's rows


def test_a_cell_may_have_several_sources():
    v = reference.values("average_accuracy")
    cell = v[(v["method"] == "ocm") & (v["dataset"] == "cifar100") & (v["memory"] == 1000)]
    assert dict(zip(cell["source"], cell["mean"], strict=True)) == {
        "emi_paper": 23.7, "ocm2022": 28.1, "libcontinual": 28.6,
    }  # fmt: skip


def test_comparison_numbers_are_those_of_scipy(paper_runs, paper_evidence):
    found = paper_evidence.compared
    default = paper_runs[paper_runs["variant"] == ""]
    judged = 0
    for c in found:
        if c.place not in ("table1", "table2") or c.n < 3:
            continue
        memory = 0 if c.method in ("finetune", "offline") else c.memory
        hits = default[
            (default["method"] == c.method) & (default["dataset"] == c.dataset) & (default["memory"] == memory)
        ]
        x = hits[c.metric].to_numpy() * 100
        assert c.mean == pytest.approx(x.mean())
        for std, told in ((c.published_std, c.verdict), (c.published_std * 10**0.5 / 2.262157, c.verdict_ci95)):
            far = max(0.0, abs(x.mean() - c.published) - 0.05)
            welch = stats.ttest_ind_from_stats(far, x.std(ddof=1), len(x), 0.0, std, 10, equal_var=False)
            side = "above" if x.mean() > c.published else "below"
            assert told == ("agrees" if welch.pvalue >= 0.05 else side)
        welch = stats.ttest_ind_from_stats(
            x.mean(), x.std(ddof=1), len(x), c.published, c.published_std, 10, equal_var=False
        )
        assert (c.difference.low <= 0 <= c.difference.high) == (welch.pvalue >= 0.05)
        if c.metric == "forgetting":
            assert c.other == pytest.approx(hits["forgetting_raptor"].mean() * 100)
        judged += 1
    assert judged > 50


def test_cells_that_did_not_run_say_so_and_are_counted(paper_evidence):
    found = paper_evidence.compared
    tiny = [c for c in found if c.dataset == "tinyimagenet" and c.place == "table1"]
    # fine-tune and offline ran on no Tiny column either
    assert {c.verdict for c in tiny} == {"not run"}
    counts = tally(found)
    assert sum(counts.values()) == len(found)
    ours = tally(c for c in found if c.source == reference.PAPER)
    assert headline(found).startswith(f"{ours['agrees']} of ")
    assert f"{ours['not run']} did not run" in headline(found)
    assert sum(by_method(found)[Row("emi")].values()) == 18


def test_too_few_runs_give_no_verdict():
    grid = Grid(synthetic_runs(grid_cells(["er"], [("cifar10", 5, 200)]), range(2)))
    (cell,) = [c for c in Evidence(grid).compared if c.method == "er" and c.place == "table1" and c.n]
    assert cell.verdict == "too few runs"
    assert headline([cell]).startswith("No cell can be judged against the paper: 1 cells have too few runs")
    assert verdict(Estimate(np.nan, np.nan, -1.0, 0)) == "not run"


def test_a_result_that_stands_in_several_columns_is_said_to_be_one():
    columns = [("cifar10", 5, memory) for memory in (200, 500, 1000)]
    runs = synthetic_runs([*grid_cells(["er"], columns), *grid_cells(["finetune"], columns[:1])], range(3))
    found = [c for c in Evidence(Grid(runs)).compared if c.place == "table1" and c.n]
    assert len(found) == 6
    assert " of 6 judged cells" in headline(found)
    assert headline(found).endswith("these cells hold 4 results.")
    assert "in every memory column" not in headline([c for c in found if c.method == "er"])


def test_other_sources_stand_beside_the_paper(paper_evidence):
    found = [c for c in paper_evidence.compared if c.method == "ocm" and c.memory == 1000 and c.dataset == "cifar100"
             and c.metric == "average_accuracy"]  # fmt: skip
    assert {c.source for c in found if c.place != "table3"} == {"emi_paper", "ocm2022", "libcontinual"}
    assert len({c.mean for c in found}) == 1


def test_the_reference_frameworks_own_run_is_an_anchor_beside_the_paper(tmp_path):
    v = reference.values(source="framework_run")
    assert {(r.dataset, r.method, r.metric): r["mean"] for _, r in v.iterrows()} == {
        ("cifar10", "finetune", "average_accuracy"): 18.1, ("cifar10", "finetune", "forgetting"): 86.9,
        ("cifar10", "er", "average_accuracy"): 23.0,
        ("cifar100", "finetune", "average_accuracy"): 5.4, ("cifar100", "finetune", "forgetting"): 45.0,
    }  # fmt: skip
    runs = synthetic_runs(grid_cells(["finetune", "er"], [("cifar10", 5, 200), ("cifar10", 5, 1000)]), range(6))
    found = several_sources(Evidence(Grid(runs)).compared)
    told = {(c[0].method, c[0].memory, c[0].metric): {x.source: x.published for x in c} for c in found}
    assert told["finetune", 200, "average_accuracy"] == {"emi_paper": 17.4, "framework_run": 18.1}
    assert told["finetune", 200, "forgetting"] == {"framework_run": 86.9}
    assert told["er", 1000, "average_accuracy"].items() >= {"emi_paper": 31.3, "framework_run": 23.0}.items()
    assert ("finetune", 1000, "average_accuracy") not in told  # the same runs
    verdicts = {x.source: x.verdict for c in found for x in c if (x.method, x.memory) == ("er", 1000)}
    assert (verdicts["emi_paper"], verdicts["framework_run"]) == ("agrees", "above")  # these runs are near the paper
    page = build_from(runs, tmp_path, ReportOptions(only=("html",))).open_first.read_text("utf-8")
    assert "the framework, one run, after each task 88.8, 65.8, 44.1, 35.2, 23.0" in page
    (er,) = (c[0] for c in found if (c[0].method, c[0].memory, c[0].metric) == ("er", 1000, "average_accuracy"))
    assert float(er.after_each.split(", ")[-1]) == pytest.approx(er.mean, abs=0.05)
    assert f"after each task {er.after_each}" in page


def test_fine_tune_alone_stands_in_the_papers_columns_and_is_judged():
    grid = Grid(synthetic_runs(grid_cells(["finetune"], [("cifar100", 10, 500)]), range(3)))
    assert [s.memory for s in grid.paper_settings] == [500, 1000, 2000]
    assert grid.other_settings == []
    small = synthetic_runs(grid_cells(["finetune", "er"], [("cifar100", 10, 1000)]), range(3))
    small = small.assign(protocol=[p | {"width": 8} for p in small["protocol"]], run_id="small-" + small["run_id"])
    beside = Grid(pd.concat([small, synthetic_runs(grid_cells(["finetune"], [("cifar100", 10, 500)]), range(3))]))
    assert (len(beside.paper_settings), len(beside.other_settings)) == (3, 1)
    found = [c for c in Evidence(grid).compared if c.place == "table1"]
    assert {(c.memory, c.published, c.n, c.verdict) for c in found} == {
        (m, 5.8, 3, "agrees") for m in (500, 1000, 2000)
    }  # fmt: skip


def test_a_grid_that_is_not_the_papers_is_compared_with_nothing(digits_grid):
    assert Evidence(digits_grid).compared == []


def test_the_csv_holds_every_comparison(paper_evidence):
    found = paper_evidence.compared
    frame = pd.read_csv(io.StringIO(csv_text([c.record for c in found])))
    assert len(frame) == len(found)
    assert frame["delta"].dropna().to_numpy() == pytest.approx([c.delta for c in found if c.n])


def test_the_papers_contradictions_are_found_and_no_others(paper_evidence):
    checked = {c.id: c for c in paper_evidence.sentences}
    assert {i for i, c in checked.items() if c.paper == "contradicts itself"} == CONTRADICTIONS
    assert {i for i, c in checked.items() if c.paper == "not in a table"} == {"first-task"}
    assert len(checked) == len(reference.claims()) >= 25


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ("margin-cifar10", "CIFAR-10 M=0.5k: +4.0 over OCM (printed +4.6)"),
        ("over-ocm-2k", "+10.1 over OCM (printed +11.1)"),
        ("onpro-tiny", "16.2 (printed 16.8)"),
        ("dualnet-gain", "+3.1 (printed +2.9)"),
        ("scr-pcr-rows", "5 of 9 means equal"),
        ("synergy", "together +5.2, the sum of each alone +5.6"),
    ],
)
def test_a_contradiction_says_what_the_tables_give(paper_evidence, claim, words):
    (checked,) = [c for c in paper_evidence.sentences if c.id == claim]
    assert any(words in p.text for p in checked.paper_parts if p.grade == "against")


def sentences(runs: pd.DataFrame) -> dict[str, Checked]:
    grid = Grid(runs)
    return {c.id: c for c in check_sentences(grid, Evidence(grid).studies)}


def test_without_runs_no_sentence_is_judged_on_ours():
    assert {c.ours for c in sentences(digits_runs(range(1)).iloc[:0]).values()} == {
        "not enough runs",
        "not about results",
    }


def test_sentences_hold_or_fail_by_our_runs():
    cells = grid_cells(["emi", "onpro", "ocm"], [("cifar100", 10, 2000)])
    runs = synthetic_runs(cells, range(5))
    good = sentences(runs)
    assert good["over-onpro-2k"].ours == "size agrees"
    assert good["best-everywhere"].ours == "not enough runs"
    shifts = {"direction holds": -0.05, "does not hold here": -0.3}
    for grade, shift in shifts.items():
        other = [matrix_of(Cell("emi", "cifar100", 10, 2000, shift=shift), s) for s in range(5)]
        emi = runs["method"] == "emi"
        runs.loc[emi, "average_accuracy"] = [m[-1].mean() for m in other]
        found = sentences(runs)
        assert found["over-onpro-2k"].ours == grade
    assert found["best-everywhere"].ours == "does not hold here"


def test_two_seeds_are_no_refutation():
    two = sentences(synthetic_runs(seeds=range(2)))
    assert {c.ours for c in two.values()} == {"not enough runs", "not about results"}
    assert not any("nan" in p.text for c in two.values() for p in c.our_parts)


def test_a_printed_value_inside_the_interval_beside_it_agrees():
    """Of three runs against ten, Welch's interval of the difference is the narrower one."""
    ours, theirs = Estimate(10.0, 0.27, 2.0, 3), Estimate(11.1, 0.2, 9.0, 10)
    assert independent([(1.0, ours), (-1.0, theirs)]).half < 1.1 < ours.half
    assert near(ours, theirs, 11.1, 0.0)
    assert not near(ours, theirs, 11.2, 0.0)


def test_a_difference_has_no_negative_zero():
    assert Estimate(-0.02, 0.001, 9.0, 10).interval == "[+0.0, +0.0]"
    assert Estimate(-0.02, float("nan"), 1.0, 2).interval == ""


def test_every_claim_has_a_check_that_exists():
    assert {c["check"] for c in reference.claims()} - {"fact"} <= set(CHECKS)
    assert len({c["id"] for c in reference.claims()}) == len(reference.claims())
