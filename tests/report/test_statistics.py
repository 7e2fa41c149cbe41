"""Intervals and tests against scipy and against hand-worked numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from emi_bench.report.axes import ACCURACY, FORGETTING, Row
from emi_bench.report.grid import Grid
from emi_bench.report.statistics import (
    bootstrap_interval,
    contrast,
    differences,
    exact_wilcoxon,
    focus,
    holm,
    improvement,
    mean_interval,
    overall,
)  # fmt: skip
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


def test_bootstrap_is_scipys_bca_seeded_and_repeats_itself():
    d = np.random.default_rng(1).normal(2, 1, 10)
    low, high = bootstrap_interval(d)
    assert (low, high) == bootstrap_interval(d)
    other = stats.bootstrap((d,), np.mean, n_resamples=20000, random_state=np.random.default_rng(5)).confidence_interval
    assert low == pytest.approx(other.low, abs=0.08)
    assert high == pytest.approx(other.high, abs=0.08)
    assert low < d.mean() < high


def test_constant_differences_have_a_point_interval_and_two_values_none():
    assert bootstrap_interval(np.full(5, 1.5)) == (1.5, 1.5)
    assert np.isnan(bootstrap_interval(np.array([1.0, 2.0]))).all()
    assert np.isnan(mean_interval([1.0, 2.0])).all()


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


def test_methods_with_different_seeds_are_compared_unpaired_and_said_so():
    cells = grid_cells(["er", "emi"], [("digits", 5, 50)])
    runs = pd.concat([synthetic_runs(cells[:1], range(4)), synthetic_runs(cells[1:], range(10, 14))])
    grid = Grid(runs)
    (d,) = differences(grid, grid.settings, ACCURACY, Row("emi"))
    assert not d.paired
    a, b = (runs[runs["method"] == m]["average_accuracy"].to_numpy() * 100 for m in ("emi", "er"))
    ci = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert (d.low, d.high) == pytest.approx((ci.low, ci.high))


def test_differences_are_the_paired_means_of_the_frame(paper_runs, paper_grid):
    found = differences(paper_grid, paper_grid.paper_settings, FORGETTING, Row("emi"))
    wide = paper_runs[paper_runs["variant"] == ""].pivot_table(
        index=["dataset", "memory", "seed"], columns="method", values="forgetting"
    )
    assert len(found) > 30
    for d in found:
        block = wide.loc[d.setting.dataset, d.setting.memory][["emi", d.other.method]].dropna()
        gap = (block["emi"] - block[d.other.method]) * 100
        assert d.mean == pytest.approx(gap.mean())
        assert d.n == len(gap)
        assert d.wins == (gap < 0).sum()
    assert not {"finetune", "offline"} & {d.other.method for d in found}


def test_overall_is_the_interquartile_mean_and_the_mean_rank_of_complete_rows():
    runs = digits_runs(range(4), ("finetune", "er", "ocm", "emi"))
    runs = runs[~((runs["method"] == "ocm") & (runs["memory"] == 50))]
    grid = Grid(runs)
    got = {o.row.method: o for o in overall(grid, grid.settings, ACCURACY)}
    assert set(got) == {"er", "emi"}
    values = runs[runs["method"] == "er"]["average_accuracy"] * 100
    assert got["er"].iqm == pytest.approx(stats.trim_mean(values, 0.25))
    means = runs[runs["method"].isin(["er", "emi"])].pivot_table(
        index="memory", columns="method", values="average_accuracy"
    )
    assert got["emi"].rank == pytest.approx(means.rank(axis=1, ascending=False)["emi"].mean())
    assert got["er"].n_runs == 8
    assert got["er"].low <= got["er"].iqm <= got["er"].high


def test_the_comparison_is_about_emi_else_the_users_own_else_the_best():
    def make(*methods: str) -> Grid:
        return Grid(synthetic_runs(grid_cells(methods, [("digits", 5, 50)]), range(3)))

    assert focus(make("er", "emi"), ACCURACY) == Row("emi")
    assert focus(make("er", "mine"), ACCURACY) == Row("mine")
    grid = make("er", "ocm")
    assert focus(grid, ACCURACY) == overall(grid, grid.settings, ACCURACY)[0].row
    assert focus(Grid(digits_runs(range(1)).iloc[:0]), ACCURACY) is None


def test_no_columns_have_no_overall_rank(paper_grid: Grid) -> None:
    assert overall(paper_grid, [], ACCURACY) == []
