"""Where a task's stream ends and how it is evaluated there: the last batch, the window, batches of an evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from emi_bench.data import get_info, load
from emi_bench.data.stream import Stream, TestSet, cut
from emi_bench.methods import get_method
from emi_bench.run import evaluation
from emi_bench.run.evaluation import evaluate
from emi_bench.run.loop import build_method, phases, run
from emi_bench.run.resolve import resolve
from tests.synthetic import register_blobs

SMALL = {"batch": 5, "replay_batch": 5, "width": 2}


@pytest.fixture(autouse=True)
def rest_of_one() -> None:
    """Two tasks of 16 images: at batch 5 a rest of one."""
    register_blobs("rest", classes=4, n_tasks=2, per_class=8)


def spec(method: str = "er", **protocol: Any) -> Any:
    config = {"epochs": 2, "batch": 8} if method == "offline" else {}
    return resolve(method, "rest", memory=8, config=config, protocol=SMALL | protocol)


@pytest.mark.parametrize(
    ("last", "sizes"),
    [("merge", [5, 5, 6]), ("keep", [5, 5, 5, 1]), ("drop", [5, 5, 5])],
    ids=["merge", "keep", "drop"],
)
def test_a_rest_of_one_image(last: Any, sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    cls, seen = get_method("er"), []
    monkeypatch.setattr(cls, "observe", lambda self, x, y, real=cls.observe: (seen.append(y), real(self, x, y))[1])
    told: list[Any] = []
    run(spec(last_batch=last), load("rest"), on_progress=told.append)
    assert [len(y) for y in seen] == 2 * sizes
    assert told[0].n_steps == len(sizes)
    stream = Stream.of(load("rest"), 2, 0)
    expected = [stream.data.y_train[stream.order(t)][: sum(sizes)] for t in range(2)]
    assert torch.equal(torch.cat(seen), torch.cat(expected))


def test_the_rest_joins_unless_told_and_is_part_of_the_id_only_then() -> None:
    assert spec().protocol.last_batch == "merge"
    ids = {last: spec(last_batch=last).run_id for last in ("merge", "keep", "drop")}
    assert len(set(ids.values())) == 3
    assert ids["merge"] == spec().run_id


def test_without_a_rest_the_choice_changes_nothing() -> None:
    matrices = [run(spec(batch=4, last_batch=last), load("rest")).matrix for last in ("merge", "keep", "drop")]
    for other in matrices[1:]:
        np.testing.assert_array_equal(matrices[0], other)


@pytest.mark.parametrize("last", ["merge", "keep", "drop"])
def test_a_task_smaller_than_a_batch_is_one_batch(last: Any) -> None:
    assert cut(3, 5, last) == [slice(0, 3)]
    assert cut(5, 5, last) == [slice(0, 5)]


def test_offline_drops_the_last_batch_of_its_own_size_whatever_the_protocol_says() -> None:
    offline = resolve("offline", "rest", config={"epochs": 2, "batch": 7}, protocol=SMALL)
    method = build_method(offline, get_info("rest"), "cpu")
    assert [p.n_steps for p in phases(method, Stream.of(load("rest"), 2, 0), 5, "keep")] == [4, 4]


def watched(method: str, k: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[tuple[int, list[float]]]]:
    """A run with a window of k, and every evaluation with the number of steps before it."""
    steps, seen = 0, []
    cls = get_method(method)

    def observe(self: Any, x: Any, y: Any, real: Any = cls.observe) -> Any:
        nonlocal steps
        steps += 1
        return real(self, x, y)

    def evaluated(*args: Any, real: Any = evaluate) -> list[float]:
        seen.append((steps, real(*args)))
        return seen[-1][1]

    with monkeypatch.context() as m:
        m.setattr(cls, "observe", observe)
        m.setattr(evaluation, "evaluate", evaluated)
        return run(spec(method, eval_window=k), load("rest")), seen


@pytest.mark.parametrize("method", ["er", "scr", "ocm", "offline"])
def test_the_value_is_the_mean_over_the_last_steps_and_training_is_the_same(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, single = watched(method, 1, monkeypatch)
    three, seen = watched(method, 3, monkeypatch)
    np.testing.assert_array_equal(one.losses, three.losses)
    ends = [s for s, _ in single]
    assert [s for s, _ in seen] == [s for end in ends for s in (end - 2, end - 1, end)]
    assert [row for s, row in seen if s in ends] == [row for _, row in single]  # the last one is as without a window
    for i, end in enumerate(ends):
        rows = [row for s, row in seen if end - 3 < s <= end]
        done = three.matrix[i + 2 - len(ends)]
        np.testing.assert_allclose(done[~np.isnan(done)], np.mean(rows, 0))


def test_a_window_longer_than_a_task_is_the_whole_task(monkeypatch: pytest.MonkeyPatch) -> None:
    _, seen = watched("er", 100, monkeypatch)
    assert [s for s, _ in seen] == [1, 2, 3, 4, 5, 6]


def test_gdumb_learns_at_the_end_and_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _, seen = watched("gdumb", 3, monkeypatch)
    assert [s for s, _ in seen] == [3, 6]


def test_the_batch_of_an_evaluation_changes_no_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    method = build_method(spec(), get_info("rest"), "cpu")
    test = TestSet.of(Stream.of(load("rest"), 2, 0))
    whole = evaluate(method, test, 2)
    monkeypatch.setattr(evaluation, "CPU_PIXELS", 3 * 64)
    assert evaluation.eval_batch(test.x.device, 8) == 3
    assert evaluate(method, test, 2) == whole
