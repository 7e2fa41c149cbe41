"""The metrics against the reference framework's numbers and against what their definitions imply."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from emi_bench import metrics
from tests.golden_files import golden


def test_recorded_matrices_give_the_recorded_values() -> None:
    recorded = golden("metrics")
    expected = dict(zip(recorded["names"], recorded["compute_performance"], strict=True))
    runs = recorded["acc"]
    assert np.mean([metrics.average_accuracy(a) for a in runs]) == pytest.approx(expected["avg_end_acc"][0])
    assert np.mean([metrics.forgetting_raptor(a) for a in runs]) == pytest.approx(expected["avg_end_fgt"][0])
    assert np.mean([metrics.average_incremental_accuracy(a) for a in runs]) == pytest.approx(expected["avg_acc"][0])
    assert [metrics.forgetting(a) for a in runs] == pytest.approx(recorded["paper_forgetting_per_run"])


def test_hand_worked_matrix() -> None:
    hand = golden("metrics")["hand"]
    (a,) = hand["acc"]
    assert metrics.average_accuracy(a) == pytest.approx(hand["end_acc"][0])
    assert metrics.forgetting_raptor(a) == pytest.approx(hand["reference_forgetting"][0])
    assert metrics.forgetting(a) == pytest.approx(hand["paper_forgetting"])


matrices = st.integers(2, 6).flatmap(lambda t: arrays(np.float64, (t, t), elements=st.floats(0, 1)))


@given(matrices)
def test_the_upper_triangle_never_matters(a: np.ndarray) -> None:
    b = a.copy()
    b[np.triu_indices(len(a), 1)] = np.nan
    assert metrics.all_metrics(a) == pytest.approx(metrics.all_metrics(b), nan_ok=True)


@given(st.integers(1, 5).flatmap(lambda t: arrays(np.float64, (3, t, t), elements=st.floats(0, 1))))
def test_a_stack_of_matrices_gives_what_each_gives_alone(stack: np.ndarray) -> None:
    stack[1, :-1] = np.nan  # one of them was evaluated only at its end
    together = metrics.all_metrics(stack)
    for i, a in enumerate(stack):
        alone = metrics.all_metrics(a)
        np.testing.assert_array_equal([together[name][i] for name in alone], list(alone.values()))


@given(matrices)
def test_raptor_forgetting_is_the_papers_scaled_when_nothing_improves_at_the_end(a: np.ndarray) -> None:
    t = len(a)
    a[-1, :-1] = 0.0
    a[-1, -1] = 1.0
    assert metrics.forgetting_raptor(a) == pytest.approx(metrics.forgetting(a) * (t - 1) / t)
    assert metrics.forgetting_raptor(a) >= 0


def test_a_run_evaluated_only_at_its_end_has_accuracy_and_no_forgetting() -> None:
    a = np.full((3, 3), np.nan)
    a[-1] = [0.5, 0.6, 0.7]
    values = metrics.all_metrics(a)
    assert values.pop("average_accuracy") == pytest.approx(0.6)
    assert all(math.isnan(v) for v in values.values())


def test_one_task_has_no_forgetting() -> None:
    assert math.isnan(metrics.forgetting([[0.5]]))
    assert math.isnan(metrics.bwt([[0.5]]))
    assert metrics.forgetting_raptor([[0.5]]) == 0


@pytest.mark.parametrize("bad", [[[0.1, 0.2]], [], [0.3]])
def test_what_is_not_a_square_matrix_is_refused(bad: list) -> None:
    with pytest.raises(ValueError, match="square"):
        metrics.average_accuracy(bad)
