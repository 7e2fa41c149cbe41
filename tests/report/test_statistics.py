"""Intervals and tests against scipy and against hand-worked numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from emi_bench.report.axes import ACCURACY, FORGETTING, Row
from emi_bench.report.compare import minus
from emi_bench.report.evidence import differences, overall
from emi_bench.report.grid import Grid
from emi_bench.report.options import Scope
from emi_bench.report.statistics import contrast, estimate, exact_wilcoxon, holm, improvement, independent
from tests.report.synthetic import digits_runs, grid_cells, synthetic_runs


def test_exact_wilcoxon_is_scipys_where_there_are_no_ties():
    rng = np.random.default_rng(0)
    for n in (3, 5, 8, 10):
        d = rng.normal(0.4, 1, n)
        assert exact_wilcoxon(d) == pytest.approx(stats.wilcoxon(d, method="exact").pvalue)


def test_exact_wilcoxon_with_ties_counts_every_assignment_of_signs():
    d = np.array([0.5, 0.5, -0.5, 1.0, 1.0])
    ranks = stats.rankdata(np.abs(d))
    sums = np.array([ranks[np.array(s)].sum() for s in itertools.product([True, False], repeat=5)])
    seen = ranks[d > 0].sum()
    centre = ranks.sum() / 2
    assert exact_wilcoxon(d) == pytest.approx((np.abs(sums - centre) >= abs(seen - centre) - 1e-9).mean())
    assert exact_wilcoxon([0.0, 0.0]) == 1.0


def test_ten_runs_all_better_give_the_smallest_p_there_is():
    assert exact_wilcoxon(np.arange(1.0, 11.0)) == pytest.approx(2 / 2**10)


def test_holm_is_monotone_capped_and_ignores_missing():
    assert holm([0.5, 0.9, float("nan"), 0.01])[3] == pytest.approx(0.03)
    got = holm([0.5, 0.9, float("nan"), 0.01])
    assert np.isnan(got[2])
    assert got[0] == got[1] == 1.0 or got[0] <= got[1]


def skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Gamma of skewness 0.5, mean 0."""
    return rng.gamma(16, 1, shape) - 16


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape)


@pytest.mark.parametrize("draw", [normal, skewed])
@pytest.mark.parametrize("n", [3, 5, 10])
def test_intervals_cover_what_they_say(draw, n):
    """95 % intervals of a mean of n runs hold the truth in 93 to 97 % of 8,000 samples."""
    samples = draw(np.random.default_rng(7), (8000, n))
    half = float(stats.t.ppf(0.975, n - 1)) * samples.std(axis=1, ddof=1) / n**0.5
    for x, h in zip(samples[:20], half, strict=False):  # the formula that is simulated is the one that is used
        assert estimate(x).half == pytest.approx(h)
    covered = (np.abs(samples.mean(axis=1)) <= half).mean()
    assert 0.93 <= covered <= 0.97


@pytest.mark.parametrize("draw", [normal, skewed])
@pytest.mark.parametrize(("n", "ratio"), [(3, 1.0), (10, 1.0), (10, 3.0)])
def test_a_perfect_replication_disagrees_in_one_cell_of_twenty(draw, n, ratio):
    """Ten published runs against n of ours with the same mean, their spreads `ratio` apart."""
    rng = np.random.default_rng(8)
    pairs = zip(draw(rng, (3000, n)), ratio * draw(rng, (3000, 10)), strict=True)
    found = [independent([(1.0, estimate(x)), (-1.0, estimate(y))]) for x, y in pairs]
    outside = np.mean([not e.low <= 0 <= e.high for e in found])
    assert 0.03 <= outside <= 0.075


@pytest.mark.parametrize("n", [3, 10])
def test_a_value_of_one_run_disagrees_in_one_cell_of_twenty(n):
    """Its spread is not known, so that ours stands in for it."""
    rng = np.random.default_rng(9)
    found = [minus(x, y, np.nan, 1) for x, y in zip(normal(rng, (3000, n)), rng.standard_normal(3000), strict=True)]
    assert 0.035 <= np.mean([not e.low <= 0 <= e.high for e in found]) <= 0.065


def test_two_values_have_no_interval_and_constant_ones_a_point():
    assert not estimate([1.0, 2.0]).enough
    assert np.isnan(estimate([1.0, 2.0]).low)
    assert (estimate([1.5] * 5).low, estimate([1.5] * 5).high) == (1.5, 1.5)


def test_probability_of_improvement_counts_pairs_and_halves_ties():
    assert improvement(np.array([1.0, 2.0]), np.array([1.0, 0.0]), True) == pytest.approx((0.5 + 1 + 1 + 1) / 4)
    assert improvement(np.array([1.0, 2.0]), np.array([1.0, 0.0]), False) == pytest.approx(0.5 / 4)


def test_shared_seeds_pair_the_difference_and_remove_what_is_common():
    rng = np.random.default_rng(2)
    common = rng.normal(50, 5, 10)
    x = dict(enumerate(common + 1 + 0.1 * rng.normal(size=10)))
    y = dict(enumerate(common))
    paired = contrast(x, y)
    apart = contrast(x, {s + 100: v for s, v in y.items()})
    assert paired.paired
    assert not apart.paired
    assert paired.low > 0 > apart.low
    assert paired.mean == pytest.approx(apart.mean)
    assert np.isnan(apart.p)
    # Two shared seeds make no interval; three runs each do. Two runs are paired, without one.
    near = contrast({s: x[s] for s in (0, 1, 2)}, {s: y[s] for s in (1, 2, 3)})
    assert (near.paired, near.enough) == (False, True)
    two = contrast({s: x[s] for s in (0, 1)}, {s: y[s] for s in (0, 1)})
    assert (two.paired, two.enough) == (True, False)


def test_methods_with_different_seeds_are_compared_unpaired_and_said_so():
    cells = grid_cells(["er", "emi"], [("digits", 5, 50)])
    runs = pd.concat([synthetic_runs(cells[:1], range(4)), synthetic_runs(cells[1:], range(10, 14))])
    grid = Grid(runs)
    (d,) = differences(grid, grid.settings, ACCURACY, Row("emi"))
    assert not d.found.paired
    a, b = (runs[runs["method"] == m]["average_accuracy"].to_numpy() * 100 for m in ("emi", "er"))
    ci = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert (d.found.low, d.found.high) == pytest.approx((ci.low, ci.high))


def test_differences_are_the_paired_means_of_the_frame(paper_runs, paper_grid):
    found = differences(paper_grid, paper_grid.paper_settings, FORGETTING, Row("emi"))
    wide = paper_runs[paper_runs["variant"] == ""].pivot_table(
        index=["dataset", "memory", "seed"], columns="method", values="forgetting"
    )
    assert len(found) > 30
    for d in found:
        block = wide.loc[d.setting.dataset, d.setting.memory][["emi", d.other.method]].dropna()
        gap = (block["emi"] - block[d.other.method]) * 100
        assert d.found.mean == pytest.approx(gap.mean())
        assert d.found.n == len(gap)
        assert d.found.wins == (gap < 0).sum()
    assert not {"finetune", "offline"} & {d.other.method for d in found}


def test_over_all_settings_is_the_way_from_finetune_to_offline_and_the_mean_rank_of_complete_rows():
    runs = digits_runs(range(4), ("finetune", "offline", "er", "ocm", "emi"))
    runs = runs[~((runs["method"] == "ocm") & (runs["memory"] == 50))]
    grid = Grid(runs)
    got = {o.row.method: o for o in overall(grid, grid.settings, ACCURACY)}
    assert set(got) == {"er", "emi"}
    accuracy = runs.pivot_table(index=["seed", "memory"], columns="method", values="average_accuracy")
    low, high = (runs[runs["method"] == m]["average_accuracy"].mean() for m in ("finetune", "offline"))
    way = ((accuracy["er"].dropna() - low) / (high - low) * 100).groupby("seed").mean()
    assert got["er"].score.mean == pytest.approx(way.mean())
    assert (got["er"].score.low, got["er"].score.high) == pytest.approx(
        stats.t.interval(0.95, 3, way.mean(), stats.sem(way))
    )
    means = runs[runs["method"].isin(["er", "emi"])].pivot_table(
        index="memory", columns="method", values="average_accuracy"
    )
    assert got["emi"].rank == pytest.approx(means.rank(axis=1, ascending=False)["emi"].mean())
    assert got["er"].n_runs == 8


def test_over_all_settings_without_the_bounds_or_with_two_seeds_there_are_ranks_alone():
    for runs in (digits_runs(range(4), ("er", "emi")), digits_runs(range(2), ("finetune", "offline", "er", "emi"))):
        grid = Grid(runs)
        found = overall(grid, grid.settings, ACCURACY)
        assert len(found) == 2
        assert not any(o.score.enough for o in found)


def test_the_comparison_is_about_the_users_own_else_emi_else_the_best():
    def make(*methods: str, ours: str = "") -> Grid:
        runs = synthetic_runs(grid_cells(methods, [("digits", 5, 50)]), range(3))
        return Grid(runs, Scope(ours=ours))

    assert make("er", "emi").focus == Row("emi")
    assert make("er", "mine", "emi").focus == Row("mine")
    assert make("er", "mine", "too", "emi").focus == Row("emi")
    assert make("er", "mine", "emi", ours="er").focus == Row("er")
    grid = make("er", "ocm")
    assert grid.focus == overall(grid, grid.settings, ACCURACY)[0].row
    assert Grid(digits_runs(range(1)).iloc[:0]).focus is None


def test_no_columns_have_no_overall_rank(paper_grid: Grid) -> None:
    assert overall(paper_grid, [], ACCURACY) == []
