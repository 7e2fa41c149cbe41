"""The loop: what is presented when, what is evaluated, how it goes on, how it fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from emi_bench.data import get_info
from emi_bench.data.stream import Stream, TestSet, class_order
from emi_bench.errors import UserError
from emi_bench.methods import get_method, method_names
from emi_bench.methods.finetune import FineTune
from emi_bench.run.checkpoint import Checkpoint
from emi_bench.run.evaluation import evaluate
from emi_bench.run.loop import Progress, build_method, phases, run
from emi_bench.run.measure import LossWindow, NonFiniteLoss
from emi_bench.run.resolve import resolve
from tests.synthetic import FEW, blobs, few_digits, register_blobs, spec


def test_class_order_and_stream_are_the_same_for_every_method_of_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batch by batch, for every method but the joint ones; another seed brings another stream."""
    data = register_blobs("paired", classes=6, n_tasks=3, per_class=5)

    def presented(name: str, seed: int) -> list[tuple[Tensor, Tensor]]:
        shown: list[tuple[Tensor, Tensor]] = []
        with monkeypatch.context() as patch:
            patch.setattr(get_method(name), "observe", lambda self, x, y: shown.append((x.clone(), y.clone())) or {})
            patch.setattr(get_method(name), "end_task", lambda self: None)
            patch.setattr(get_method(name), "predict", lambda self, x: torch.zeros(len(x), dtype=torch.int64))
            assert run(spec(name, "paired", seed=seed), data).class_order == class_order(6, seed)
        return shown

    first = presented("er", 0)
    for name in method_names():
        if not get_method(name).joint:
            same = presented(name, 0)
            assert len(same) == len(first)
            for (x, y), (other_x, other_y) in zip(first, same, strict=True):
                assert torch.equal(x, other_x), name
                assert torch.equal(y, other_y), name
    assert [y.tolist() for _, y in presented("er", 1)] != [y.tolist() for _, y in first]
    assert class_order(6, 0) != class_order(6, 1)


def test_every_training_sample_comes_exactly_once_in_the_order_of_the_seed() -> None:
    data = blobs("x", 6, 7)
    stream = Stream.of(data, 3, seed=5)
    seen = np.concatenate([stream.order(t) for t in range(3)])
    assert sorted(seen) == list(range(42))
    for t in range(3):
        assert set(data.y_train[stream.order(t)].tolist()) == set(stream.tasks[t])
        np.testing.assert_array_equal(stream.order(t), Stream.of(data, 3, seed=5).order(t))
    assert not np.array_equal(stream.order(0), Stream.of(data, 3, seed=6).order(0))


def test_a_joint_method_sees_every_sample_once_an_epoch_but_those_of_the_last_short_batch() -> None:
    data = register_blobs("joint", classes=4, n_tasks=2, per_class=9)
    offline = build_method(resolve("offline", "joint", config={"epochs": 3, "batch": 16}), data.info, "cpu")
    plan = phases(offline, Stream.of(data, 2, 0), 10)
    assert [p.ends_task for p in plan] == [False, False, True]
    for phase in plan:
        assert sorted(phase.indices) == list(range(36))
        assert [len(y) for _, y in Stream.of(data, 2, 0).batches(phase.indices, phase.batch, phase.last)] == [16, 16]


def test_a_balanced_stream_has_every_class_in_each_batch_and_every_sample_once() -> None:
    data = blobs("x", 4, 7)
    stream = Stream.of(data, 2, seed=0)
    order = stream.balanced_order(0, 4)
    assert sorted(order) == sorted(stream.order(0))
    labels = data.y_train[order].tolist()
    for start in range(0, 12, 4):
        assert sorted(labels[start : start + 4]) == sorted(2 * stream.tasks[0])


def test_batches_of_a_balanced_stream_are_balanced_where_the_batch_is_no_multiple_of_the_classes() -> None:
    data = register_blobs("uneven", classes=4, n_tasks=2, per_class=7)
    balanced = resolve("ssd", "uneven", memory=8, config={"stream": "balanced"}, protocol={"batch": 5})
    ssd = build_method(balanced, data.info, "cpu")
    first, _ = phases(ssd, Stream.of(data, 2, 0), 5)
    sizes = [len(y) for _, y in Stream.of(data, 2, 0).batches(first.indices, first.batch)]
    assert sizes == [4, 4, 6]
    for start in range(0, 12, 4):
        assert np.bincount(data.y_train[first.indices[start : start + 4]], minlength=4).max() == 2
    with pytest.raises(UserError, match="a batch of 2 cannot hold all 4 classes"):
        resolve("ssd", "uneven", memory=8, config={"stream": "balanced"}, protocol={"batch": 2, "n_tasks": 1})


def test_evaluation_counts_right_answers_per_task() -> None:
    data = blobs("x", 4, 3)
    stream = Stream.of(data, 2, 0)
    test = TestSet.of(stream)

    class Oracle:
        """Right about the first class of each task, wrong about the second."""

        def predict(self, x: Tensor) -> Tensor:
            rows = [next(i for i in range(len(test.x)) if torch.equal(image, test.x[i])) for image in x]
            true = test.y[rows]
            known = torch.tensor([task[0] for task in stream.tasks])
            return torch.where(torch.isin(true, known), true, (true + 1) % 4)

        def predictions(self, x: Tensor) -> dict[str, Tensor]:
            return {"": self.predict(x)}

    oracle: Any = Oracle()
    assert evaluate(oracle, test, 1) == [0.5]
    assert evaluate(oracle, test, 2) == [0.5, 0.5]


def test_the_matrix_is_lower_triangular_and_offline_has_only_its_last_row() -> None:
    data = few_digits()
    matrix = run(spec("finetune"), data).matrix
    np.testing.assert_array_equal(np.isnan(matrix), np.triu(np.ones((5, 5), bool), 1))
    one = resolve("offline", "digits", config={"epochs": 1}, protocol={"width": 2} | FEW)
    matrix = run(one, data).matrix
    assert np.isnan(matrix[:-1]).all()
    assert np.isfinite(matrix[-1]).all()


def test_progress_tells_tasks_steps_and_accuracy() -> None:
    told: list[Progress] = []
    data = register_blobs("progress", classes=4, n_tasks=2, per_class=60)
    run(spec("finetune", "progress", batch=2), data, on_progress=told.append)
    assert [p.phase for p in told if p.step == 0] == [1, 2]
    assert [p.step for p in told if p.phase == 0] == [50]
    assert {p.n_steps for p in told if p.phase < 2} == {60}
    assert all(p.accuracy is not None for p in told if p.phase > 0)


class Exploding(FineTune):
    """Becomes NaN at its fourth step."""

    def observe(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        self.n = getattr(self, "n", 0) + 1
        return {"ce_stream": torch.tensor(float("nan") if self.n == 4 else 1.0), "other": torch.tensor(2.0)}


def test_a_loss_that_is_not_finite_ends_the_run_with_its_step_and_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FineTune, "observe", Exploding.observe)
    with pytest.raises(NonFiniteLoss, match=r"step 4: ce_stream=nan, other=2"):
        run(spec("finetune"), few_digits())


def test_loss_means_are_over_the_steps_that_had_the_term() -> None:
    window = LossWindow()
    for i in range(120):
        window.add({"a": torch.tensor(float(i))} | ({"b": torch.tensor(1.5)} if i % 2 else {}))
    window.flush()
    assert window.means() == {"a": 59.5, "b": 1.5}
    assert window.step == 120


def test_a_checkpoint_of_another_run_is_refused() -> None:
    kept: list[Checkpoint] = []
    run(spec("finetune"), few_digits(), on_checkpoint=kept.append)
    with pytest.raises(ValueError, match="not of"):
        run(spec("finetune", seed=1), few_digits(), resume=kept[0])


def test_initial_weights_depend_on_the_seed_and_not_on_the_method() -> None:
    def weights(name: str, seed: int) -> Tensor:
        return next(build_method(spec(name, seed=seed), get_info("digits"), "cpu").net.parameters())

    assert torch.equal(weights("er", 3), weights("finetune", 3))
    assert not torch.equal(weights("er", 3), weights("er", 4))


def test_features_are_unit_vectors_of_the_test_set_and_a_sample_of_the_training_set() -> None:
    data = few_digits()
    one = spec("finetune").model_copy(update={"features": True})
    table = run(one, data).features
    assert table is not None
    assert (table.split == "test").sum() == len(data.y_test)
    assert table.features.shape == (len(data.y_test) + len(data.y_train), 16)
    np.testing.assert_allclose(np.linalg.norm(table.features, axis=1), 1, atol=1e-5)
    assert set(table.task) == {1, 2, 3, 4, 5}
