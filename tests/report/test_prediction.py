"""Rank correlation, reversed pairs, steps of the ablation: against hand-worked numbers and scipy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from emi_bench import load_runs, reference
from emi_bench.report.axes import ACCURACY, Row, papers_rows
from emi_bench.report.evidence import Evidence, evidence_of
from emi_bench.report.figures.canvas import save
from emi_bench.report.figures.prediction import prediction
from emi_bench.report.grid import Grid
from emi_bench.report.options import ReportOptions
from emi_bench.report.prediction import PublishedValue, common, correlations, is_proxy, order, published, steps
from emi_bench.report.proxy import proxy_section
from emi_bench.report.sentences.scope import proxy_says, reach
from emi_bench.report.studies import PARTS
from emi_bench.report.studies import published as printed_study
from tests.report.synthetic import grid_cells, study_cells, synthetic_runs

ROOT = Path(__file__).parents[2]
PAPER = published("average_accuracy", "cifar10", 5, 200)


def spread(means: Mapping[str, float], noise: float = 0.0, seeds: int = 5) -> dict[str, dict[int, float]]:
    rng = np.random.default_rng(0)
    return {m: {s: v + noise * float(rng.normal()) for s in range(seeds)} for m, v in means.items()}


def test_the_published_column_is_table_1() -> None:
    assert PAPER["er"] == PublishedValue(20.9, 0.5, 10)
    assert len(PAPER) == 15
    assert published("average_accuracy", "cifar10", 5, 300) == {}
    assert "finetune" not in published("forgetting", "cifar10", 5, 200)


def test_the_same_order_correlates_fully_and_the_bounds_do_not_help() -> None:
    ours = spread({m: v.mean / 2 for m, v in PAPER.items()})
    found = {c.name: c for c in correlations(ours, PAPER)}
    assert found["Spearman"].value == pytest.approx(1)
    assert (found["Spearman"].n_methods, found["Spearman"].n_seeds) == (13, 5)
    assert {"finetune", "offline"}.isdisjoint(common(ours, PAPER))
    # Everyone alike but the bounds: an order of the bounds alone is no prediction.
    flat = spread({m: 1.0 if m == "finetune" else 90.0 if m == "offline" else 50.0 for m in PAPER})
    assert all(np.isnan(c.value) for c in correlations(flat, PAPER))
    assert all(c.value > 0.3 for c in correlations(flat, PAPER, list(PAPER)))


def test_the_coefficients_are_scipys() -> None:
    ours = spread({m: v.mean for m, v in PAPER.items()}, noise=15)
    names = common(ours, PAPER)
    x = [np.mean(list(ours[m].values())) for m in names]
    y = [PAPER[m].mean for m in names]  # SCR and PCR are printed alike: a tie
    spearman, kendall = correlations(ours, PAPER)
    assert spearman.value == pytest.approx(stats.spearmanr(x, y).statistic)
    assert kendall.value == pytest.approx(stats.kendalltau(x, y).statistic)
    assert spearman.low < spearman.value < spearman.high <= 1
    assert kendall.low < kendall.value < kendall.high <= 1


def test_the_interval_widens_with_noise_and_with_fewer_methods() -> None:
    means = {m: v.mean for m, v in PAPER.items()}

    def width(noise: float, methods: list[str] | None = None) -> float:
        c = correlations(spread(means, noise), PAPER, methods)[0]
        return c.high - c.low

    assert width(0.1) < width(25)
    few = ["er", "gss", "aser", "mir", "scr", "emi"]
    assert width(5) < width(5, few)


def test_seeds_that_not_all_methods_have_do_not_count() -> None:
    ours = spread({m: v.mean for m, v in PAPER.items()})
    del ours["emi"][4]
    ours["er"][9] = 99.0
    assert correlations(ours, PAPER)[0].n_seeds == 4
    assert correlations({"er": {0: 1.0}, "emi": {0: 2.0}}, PAPER) == []


def test_a_reversed_pair_is_told_with_whether_the_seeds_decide_it() -> None:
    paper = {
        "er": PublishedValue(20.0),
        "mir": PublishedValue(30.0),
        "scr": PublishedValue(30.0),
        "dvc": PublishedValue(40.0),
    }
    ours = {
        "er": {0: 50.0, 1: 51.0, 2: 52.0},
        "mir": {0: 40.0, 1: 41.0, 2: 43.0},  # below ER by 10, 10, 9
        "scr": {0: 48.0, 1: 53.0, 2: 49.0},  # below ER by 1 in the mean, above it once
        "dvc": {0: 60.0, 1: 60.0, 2: 60.0},
    }
    found = order(ours, paper, higher=True)
    assert (found.same, found.tied) == (3, 1)
    assert [(p.better, p.worse) for p in found.reversed] == [("mir", "er"), ("scr", "er")]
    mir, scr = found.reversed
    assert mir.printed == 10
    assert mir.gap.mean == pytest.approx(-29 / 3)
    assert (mir.beyond, scr.beyond) == (True, False)
    assert mir.gap.against() < 0.05 / 5 < scr.gap.against()  # of five pairs, one survives Holm's adjustment
    assert found.certain == 1
    two = {m: {s: v for s, v in by.items() if s < 2} for m, by in ours.items()}
    assert order(two, paper, higher=True).reversed[0].beyond is None


def test_of_several_decided_pairs_the_adjusted_ones_are_fewer() -> None:
    scr = dict.fromkeys(range(4), 30.0)
    mir = {s: scr[s] + gap for s, gap in enumerate((1, 3, 3, 1))}
    er = {s: mir[s] + gap for s, gap in enumerate((1, 3, 1, 3))}
    paper = {m: PublishedValue(v) for m, v in (("er", 10.0), ("mir", 20.0), ("scr", 30.0))}
    found = order({"er": er, "mir": mir, "scr": scr}, paper, higher=True)
    assert [p.beyond for p in found.reversed] == [True, True, True]
    assert found.certain == 1  # p of 0.016, 0.041 and 0.041: Holm asks for 0.017, then for 0.025


def test_of_forgetting_less_is_better() -> None:
    paper = {"er": PublishedValue(60.0), "emi": PublishedValue(10.0)}
    ours = {"er": {0: 5.0, 1: 6.0, 2: 5.0}, "emi": {0: 9.0, 1: 9.0, 2: 9.0}}
    (pair,) = order(ours, paper, higher=False).reversed
    assert (pair.better, pair.worse, pair.printed, pair.beyond) == ("emi", "er", 50.0, True)
    assert pair.gap.mean == pytest.approx(-11 / 3)
    assert order(ours, {"er": PublishedValue(10.0), "emi": PublishedValue(60.0)}, higher=False).reversed == ()


def test_the_ablation_has_a_step_for_every_part_switched_on() -> None:
    paper = printed_study(PARTS)
    assert len(paper) == 7
    ours = {flags: {s: 10.0 + sum(flags) + s for s in range(3)} for flags in paper}
    noisy = {s: ours[True, True, True, True][s] + (9, -9, 0)[s] for s in range(3)}
    found = steps(ours | {(True, True, True, True): noisy}, paper)
    assert [(s.part, round(s.printed, 1)) for s in found] == [
        ("dualnet", 3.1),
        ("dmi", 3.3),
        ("rmi", 2.3),
        ("rmi", 1.9),
        ("smi", 1.0),
        ("dmi", 2.9),
        ("smi", 0.5),
        ("rmi", 1.4),
    ]
    assert {(s.direction, s.decided) for s in found if s.after != (True,) * 4} == {("the paper's", True)}
    assert {s.decided for s in found if s.after == (True,) * 4} == {False}
    worse = {flags: {s: 10.0 - sum(flags) + s for s in range(3)} for flags in paper}
    assert {(s.direction, s.decided) for s in steps(worse, paper)} == {("the other way", True)}
    assert {s.decided for s in steps({f: {0: 1.0, 1: 2.0} for f in paper}, paper)} == {None}


def test_a_proxy_is_less_than_the_paper_in_pixels_images_or_channels() -> None:
    assert is_proxy({"width": 8})
    assert is_proxy({"train_per_class": 100})
    assert not is_proxy({"image_size": None, "width": 20, "precision": "bf16", "replay_batch": 64})


def test_every_claim_is_either_spoken_to_or_says_why_not() -> None:
    columns = [("cifar10", 200)]
    found = {c["id"]: reach(c, columns, {"ablation": ("cifar10", 200)}) for c in reference.claims()}
    assert all(s.why for s in found.values())
    assert not any(found[i].speaks for i in ("cost-time", "cost-memory", "cost-unit", "growth-emi", "onpro-tiny"))
    assert found["margin-cifar10"].why == "direction alone, in 1 of 3 columns"
    assert found["margin-cifar100"].why == "the proxy has none of its columns"
    assert found["dmi-gain"].why == "direction alone, in another column than the paper's study"
    assert found["alpha-best"].why == "the proxy has no study of alpha"
    assert found["one-sample-prototype"].why == "the proxy has no study of prototypes"
    assert not found["scr-pcr-rows"].speaks
    home = {"ablation": ("cifar100", 1000)}
    assert reach(next(c for c in reference.claims() if c["id"] == "dmi-gain"), columns, home).why == "direction alone"


@pytest.fixture(scope="module")
def proxy_evidence() -> Evidence:
    """SYNTHETIC: the paper's column and its ablation on less data, the numbers near the printed ones."""
    cells = [*grid_cells(settings=[("cifar10", 5, 200)]), *study_cells("cifar10", 5, 200)]
    runs = synthetic_runs(cells, range(4))
    part = {"image_size": 8, "train_per_class": 2000, "width": 8}
    return Evidence(Grid(runs.assign(width=8, protocol=[p | part for p in runs["protocol"]])))


def _column(evidence: Evidence) -> tuple[dict[str, dict[int, float]], dict[str, PublishedValue]]:
    (setting,) = evidence.grid.settings
    return {m: evidence.grid.cell(Row(m), setting).by_seed(ACCURACY) for m in PAPER}, PAPER


def test_the_section_tells_order_pairs_steps_and_what_it_cannot_say(proxy_evidence: Evidence) -> None:
    section = proxy_section(proxy_evidence)
    assert section is not None
    html, lines = section.html, section.files["prediction.csv"].splitlines()
    spearman, _ = correlations(*_column(proxy_evidence))
    assert (
        f"Spearman {spearman.value:.2f} [{spearman.low:.2f}, {spearman.high:.2f}] over 13 methods and 4 seeds" in html
    )
    assert "CIFAR-10 M=0.2k: average forgetting" in html
    assert "steps of the ablation" in html
    assert "the other way" in html or "the paper&#x27;s" in html
    assert "times and bytes of a narrow network" in html
    said = proxy_says(proxy_evidence.grid, proxy_evidence.studies, proxy_evidence.grid.settings)
    assert len(said) == len(reference.claims())
    told = {s.quote[:20]: s.verdict for s in said}
    emi = next(c for c in reference.claims() if c["id"] == "margin-cifar10")
    assert told[emi["quote"][:20]] == "direction holds"
    assert {s.verdict for s in said} == {"cannot say", "direction holds", "undecided", "does not hold here"}
    n = sum("reversed pair" in line for line in lines)
    assert sum("ablation step" in line for line in lines) == 8
    assert html.count("<td>yes</td>") + html.count("<td>no</td>") == n + 8
    assert section.first
    assert "when adjusted for the number of pairs" in html
    assert len(section.files["proxy_claims.csv"].splitlines()) == 1 + len(said)
    kinds = {tuple(line.split(",")[2:4]) for line in lines[1:]}
    assert {(m, k) for m in ("average_accuracy", "forgetting") for k in ("Spearman", "Kendall")} <= kinds


def test_a_column_without_its_methods_says_nothing_to_a_sentence() -> None:
    cheap = grid_cells(["agem", "er", "mir", "ssd"], [("cifar100", 10, 1000)])
    runs = synthetic_runs([*grid_cells(settings=[("cifar10", 5, 200)]), *cheap], range(3))
    grid = Grid(runs.assign(width=8, protocol=[p | {"width": 8} for p in runs["protocol"]]))
    said = {s.quote: s for s in proxy_says(grid, {}, grid.settings)}
    claims = {c["id"]: said[c["quote"]] for c in reference.claims()}
    lacking = ("cannot say", "the proxy has not run all of its methods in its columns")
    assert (claims["margin-cifar100"].verdict, claims["margin-cifar100"].numbers) == lacking
    assert claims["margin-tiny"].numbers == "the proxy has none of its columns"
    assert claims["best-everywhere"].numbers.endswith("direction alone, in 1 of 9 columns")
    assert "CIFAR-100" not in claims["best-everywhere"].numbers
    assert claims["mi-forgetting"].verdict != "not enough runs"


def test_the_steps_of_the_committed_ablation_are_over_its_own_seeds() -> None:
    """EMI and OCM have five seeds there from the other sweep, the rows between them three."""
    sweeps = [ROOT / "sweeps" / f"{name}.yaml" for name in ("proxy8", "proxy8_ablation")]
    evidence = evidence_of(load_runs(ROOT / "results" / "proxy8"), ReportOptions(sweeps))
    (study,) = evidence.studies[PARTS.kind]
    assert study.seeds == (0, 1, 2)
    assert {cell.n for cell in study.points.values()} == {3}
    assert evidence.grid.cell(Row("emi"), study.setting).n == 5
    table = next(t for t in evidence.tables if t.kind == "ablation")
    assert "All rows are of seeds 0, 1, 2, as the ablation's." in table.caption.plain
    assert all(
        s.gap.n == 3 and s.gap.paired
        for s in steps({p: c.by_seed(ACCURACY) for p, c in study.points.items()}, printed_study(PARTS))
    )


def test_an_ablation_that_has_hardly_begun_leaves_the_other_rows_their_planned_seeds() -> None:
    sweeps = [ROOT / "sweeps" / f"{name}.yaml" for name in ("proxy8", "proxy8_ablation")]
    runs = load_runs(ROOT / "results" / "proxy8")
    begun = runs[(runs["variant"] == "") | ((runs["variant"] == "dualnet") & (runs["seed"] == 0))]
    (study,) = evidence_of(begun, ReportOptions(sweeps)).studies[PARTS.kind]
    assert study.seeds == (0, 1, 2)
    assert sorted((cell.n, cell.expected) for cell in study.points.values()) == [(1, 3), (3, 3), (3, 3)]


def test_columns_of_the_paper_and_data_it_does_not_have_are_no_proxy(
    paper_evidence: Evidence, digits_evidence: Evidence
) -> None:
    assert proxy_section(paper_evidence) is None
    assert proxy_section(digits_evidence) is None
    assert list(prediction(digits_evidence)) == []


def test_the_scatter_names_every_method_and_keeps_its_data(proxy_evidence: Evidence, tmp_path: Path) -> None:
    (drawing,) = prediction(proxy_evidence)
    records = [r for r in drawing.data if r["metric"] == "average_accuracy"]
    assert len(records) == 15
    (emi,) = (r for r in records if r["method"] == "emi")
    assert (emi["published"], emi["n"]) == (PAPER["emi"].mean, 4)
    left = drawing.figure.axes[0]
    assert {t.get_text() for t in left.texts} == {row.title for row in papers_rows()}
    assert "Spearman" in left.get_title()
    assert [p.suffix for p in save(drawing, tmp_path)][:2] == [".pdf", ".png"]
