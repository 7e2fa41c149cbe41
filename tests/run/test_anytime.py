"""Accuracy while the stream runs: what is recorded and stored, and that nobody notices."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from emi_bench import anytime, load_anytime
from emi_bench.data import get_info, load
from emi_bench.data.stream import Stream, TestSet
from emi_bench.errors import UserError
from emi_bench.methods import method_names
from emi_bench.run.checkpoint import Checkpoint, UnusableCheckpoint
from emi_bench.run.evaluation import evaluate
from emi_bench.run.execute import execute
from emi_bench.run.loop import build_method, run
from emi_bench.run.resolve import resolve
from emi_bench.run.spec import RunSpec
from emi_bench.store import DamagedFile, Store
from tests.synthetic import register_blobs

SMALL = {"batch": 5, "replay_batch": 5, "width": 2}
OFTEN = {"every": 2, "per_class": 2}


@pytest.fixture(autouse=True)
def blobs() -> None:
    """Two tasks of 16 images: at batch 5 three steps a task."""
    register_blobs("watched", classes=4, n_tasks=2, per_class=8)


def spec(method: str = "er", watch: Any = OFTEN, **more: Any) -> RunSpec:
    config = {"epochs": 2} if method in ("offline", "gdumb") else {}
    protocol = SMALL | ({"anytime": watch} if watch is not None else {})
    return resolve(method, "watched", memory=8, config=config, protocol=protocol, **more)


def assert_same(a: Any, b: Any) -> None:
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for k in a:
            assert_same(a[k], b[k])
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(a, torch.Tensor):
        assert torch.equal(a, b)
    else:
        assert a == b


#: Of each way to predict one, and those without a curve; `make test-all` asks every method.
QUICK = {"er", "scr", "emi", "ccl_dc", "gdumb", "offline"}
METHODS = [pytest.param(m, marks=[] if m in QUICK else [pytest.mark.slow]) for m in method_names()]


@pytest.mark.parametrize("method", METHODS)
def test_watching_changes_nothing(method: str) -> None:
    kept: dict[bool, list[Checkpoint]] = {True: [], False: []}
    results = {}
    for watched in (True, False):
        asked = spec(method, {"every": 1, "per_class": 2} if watched else None)
        results[watched] = run(asked, load("watched"), on_checkpoint=kept[watched].append)
    np.testing.assert_array_equal(results[True].matrix, results[False].matrix)
    assert results[True].losses == results[False].losses
    assert_same(kept[True][-1].method, kept[False][-1].method)  # weights, statistics, memory, optimiser, draws
    assert results[False].curve is None
    assert spec(method).run_id == spec(method, None).run_id
    assert (results[True].curve is None) == (method in ("gdumb", "offline"))  # these have no curve


def test_points_are_where_they_are_asked_for_and_hold_the_task_ends() -> None:
    result = run(spec(watch={"every": 2, "per_class": "all"}), load("watched"))
    assert result.curve is not None
    points = {(step, samples, task, of) for step, samples, task, of, *_ in result.curve}
    assert points == {(2, 10, 1, 1), (3, 16, 1, 1), (5, 26, 2, 1), (5, 26, 2, 2), (6, 32, 2, 1), (6, 32, 2, 2)}
    ends = {(row[2], row[3]): row for row in result.curve if row[0] in (3, 6)}
    for (task, of), row in ends.items():
        assert row[4] == result.matrix[task - 1, of - 1]  # the whole test set here
        assert sum(row[6]) == row[5] == result.n_test[of - 1]
    assert all((row[6] is not None) == (row[0] in (3, 6)) for row in result.curve)


def test_the_images_are_a_share_of_every_class_and_the_same_for_all_methods() -> None:
    stream = Stream.of(load("watched"), 2, 0)
    test = TestSet.of(stream)
    part = test.sample(2, seed=7)
    assert np.bincount(part.y).tolist() == [2, 2, 2, 2]
    assert part.ends == [4, 8]
    assert set(part.y[:4].tolist()) == set(stream.tasks[0])
    assert torch.equal(part.x, test.sample(2, seed=7).x)
    assert not torch.equal(part.x, test.sample(2, seed=8).x)
    method = build_method(spec(), get_info("watched"), "cpu")
    assert evaluate(method, test.sample(10**6, seed=1), 2) == evaluate(method, test, 2)


def test_a_resumed_run_has_the_whole_curve() -> None:
    kept: list[bytes] = []
    whole = run(spec(), load("watched"), on_checkpoint=lambda c: kept.append(c.encode()))
    resumed = run(spec(), load("watched"), resume=Checkpoint.decode(kept[0]))
    assert resumed.curve == whole.curve
    np.testing.assert_array_equal(resumed.matrix, whole.matrix)
    plain = run(spec(watch=None), load("watched"), resume=Checkpoint.decode(kept[0]))
    assert plain.curve is None
    with pytest.raises(UnusableCheckpoint, match="not measured"):
        run(spec(watch={"every": 1}), load("watched"), resume=Checkpoint.decode(kept[0]))


def test_a_curve_is_stored_beside_its_result_and_read_with_its_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    do = partial(execute, store=store, load=lambda: load("watched"))
    do(spec(watch=None))
    assert store.done(spec(watch=None))
    assert not store.done(spec())  # asked for later: a training of its own
    do(spec())
    do(spec("gdumb"))
    assert store.done(spec())
    assert store.done(spec("gdumb"))
    frame = load_anytime(tmp_path)
    assert set(frame["run_id"]) == {spec().run_id}
    assert frame[["method", "dataset", "memory", "seed"]].drop_duplicates().to_numpy().tolist() == [
        ["er", "watched", 8, 0]
    ]
    result = run(spec(), load("watched"))
    assert result.curve is not None
    assert frame["accuracy"].tolist() == [row[4] for row in result.curve]
    said = anytime.summary(frame)
    assert 0 <= said["wc_acc"] <= said["end"] <= 1
    assert anytime.task_confusion(frame).sum(1).tolist() == pytest.approx([1, 1])


def test_a_damaged_curve_is_named_and_left(tmp_path: Path) -> None:
    store = Store(tmp_path)
    execute(spec(), store, lambda: load("watched"))
    (file,) = (tmp_path / "_anytime").iterdir()
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.warns(DamagedFile, match="left out"):
        assert load_anytime(tmp_path).empty
    assert list(store.damaged()) == [f"_anytime/{spec().run_id}.parquet"]
    assert file.exists()


def test_without_curves_the_frame_is_empty(tmp_path: Path) -> None:
    assert load_anytime(tmp_path).empty


def test_images_a_class_follow_from_the_classes_unless_given() -> None:
    sizes = {
        name: resolve("er", name, memory=200, protocol={"anytime": {}}).anytime for name in ("cifar10", "cifar100")
    }
    assert [a.per_class for a in sizes.values() if a] == [100, 20]


def test_wrong_wishes_are_refused() -> None:
    for wish in ({"every": 0}, {"per_class": "some"}, {"often": 1}):
        with pytest.raises(UserError, match="protocol"):
            spec(watch=wish)


def test_the_printed_command_asks_for_it_again() -> None:
    assert '--set \'protocol.anytime={"every":2,"per_class":2}\'' in spec().command()
    assert "anytime" not in spec("gdumb").command()
