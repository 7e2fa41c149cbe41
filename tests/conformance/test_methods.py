"""What every method promises, whoever wrote it. A new method is found by the registry and tested here unasked."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from emi_bench.data import get_info, load
from emi_bench.data.stream import Stream
from emi_bench.methods import get_method, load_plugin, method_names
from emi_bench.metrics import average_accuracy
from emi_bench.run.checkpoint import Checkpoint, State
from emi_bench.run.loop import build_method, run
from emi_bench.run.resolve import resolve
from emi_bench.run.result import RunResult
from emi_bench.run.spec import RunSpec
from tests.conformance.conftest import LEARN

#: Overrides that make a method quick without changing what it does.
QUICK: dict[str, dict[str, Any]] = {"offline": {"epochs": 4, "batch": 16}, "gdumb": {"epochs": 8}}
SMALL = {"width": 4, "batch": 5, "replay_batch": 8}

for plugin in filter(None, os.environ.get("EMI_BENCH_PLUGIN", "").split(os.pathsep)):
    load_plugin(plugin)

every_method = pytest.mark.parametrize("name", method_names())


def small_spec(name: str, dataset: str, *, memory: int = 12, seed: int = 0, **protocol: Any) -> RunSpec:
    config = QUICK.get(name)
    return resolve(name, dataset, memory=memory, seed=seed, config=config, protocol=SMALL | protocol)


def execute(spec: RunSpec, **kwargs: Any) -> RunResult:
    torch.set_num_threads(1)
    return run(spec, load(spec.dataset), **kwargs)


@cache
def finished(name: str, dataset: str, seed: int = 0) -> tuple[RunResult, list[Checkpoint]]:
    """One undisturbed run and its checkpoints (as bytes would hold them), shared by the tests that look at it."""
    kept: list[Checkpoint] = []
    result = execute(small_spec(name, dataset, seed=seed), on_checkpoint=lambda c: kept.append(saved(c)))
    return result, kept


def saved(checkpoint: Checkpoint) -> Checkpoint:
    """Through the bytes of a file, as the store does it."""
    return Checkpoint.decode(checkpoint.encode())


@every_method
def test_learns_digits_above_chance(name: str) -> None:
    protocol = {"width": 8, "batch": 4, "replay_batch": 16}
    spec = resolve(name, LEARN, memory=40, seed=1, config=QUICK.get(name), protocol=protocol)
    assert average_accuracy(execute(spec).matrix) > 0.35  # chance is 0.25


@every_method
def test_the_same_seed_gives_the_same_matrix(name: str) -> None:
    first, _ = finished(name, "short")
    again = execute(small_spec(name, "short"))
    np.testing.assert_array_equal(first.matrix, again.matrix)
    assert first.losses == again.losses


@every_method
def test_another_seed_learns_something_else_from_the_same_classes(name: str) -> None:
    """With the classes in their natural order: it is the stream, the weights and the choices that differ."""
    one, other = (trained(small_spec(name, "short", seed=seed, class_order="natural")) for seed in (0, 1))
    assert any(not torch.equal(one[key], other[key]) for key in one)


def trained(spec: RunSpec) -> dict[str, Tensor]:
    """The parameters after the last task."""
    kept: list[Checkpoint] = []
    execute(spec, on_checkpoint=lambda c: kept.append(saved(c)))
    parameters = {
        key for key, _ in build_method(spec, get_info(spec.dataset), "cpu").net.named_parameters(prefix="net")
    }
    return {key: value for key, value in kept[-1].method.items() if key in parameters}


@every_method
def test_resumed_at_any_task_boundary_is_bit_identical(name: str) -> None:
    result, kept = finished(name, "lonely")
    for checkpoint in kept:
        resumed = execute(small_spec(name, "lonely"), resume=checkpoint)
        np.testing.assert_array_equal(result.matrix, resumed.matrix)
        assert resumed.losses == result.losses


@every_method
def test_state_round_trips_through_a_checkpoint(name: str) -> None:
    spec = small_spec(name, "short")
    method = build_method(spec, get_info(spec.dataset), "cpu")
    stream = Stream.of(load("short"), 2, 0)
    for x, y in stream.batches(stream.order(0), 5):
        method.observe(x, y)
    method.end_task()
    twin = build_method(spec, get_info(spec.dataset), "cpu")
    twin.load_state_dict(saved(Checkpoint(spec.run_id, 1, method.state_dict(), State())).method)
    assert_same(method.state_dict(), twin.state_dict())
    x, y = next(stream.batches(stream.order(1), 5))
    assert_same(method.observe(x, y), twin.observe(x, y))
    assert_same(method.state_dict(), twin.state_dict())


def assert_same(a: Any, b: Any, where: str = "") -> None:
    if isinstance(a, Tensor):
        assert torch.equal(a, b), where
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            assert_same(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{where}[{i}]")
    else:
        assert a == b, where


@every_method
@pytest.mark.parametrize("dataset", ["short", "lonely"])
@pytest.mark.parametrize("memory", [4, 12])
def test_awkward_streams_are_survived(name: str, dataset: str, memory: int) -> None:
    """Memory smaller than a batch, one class a task, a last batch of one image; what comes out is sane."""
    spec = small_spec(name, dataset, memory=memory)
    method = build_method(spec, get_info(spec.dataset), "cpu")
    data = load(dataset)
    stream = Stream.of(data, spec.n_tasks, spec.seed)
    limit = memory if method.uses_memory else 0
    assert method.memory.size == limit
    for task in range(spec.n_tasks):
        for x, y in stream.batches(stream.order(task), 5):
            losses = method.observe(x, y)
            assert all(torch.isfinite(v) for v in losses.values()), losses
            assert len(method.memory) <= limit
            assert method.memory.images.shape[0] <= limit
        method.end_task()
        predicted = method.predict(data.x_test)
        assert predicted.shape == (len(data.y_test),)
        assert predicted.dtype == torch.int64
        assert 0 <= predicted.min() <= predicted.max() < data.n_classes
        assert method.training, "predict must leave the method in train mode"
    for key, value in method.state_dict().items():
        if isinstance(value, Tensor) and value.is_floating_point():
            assert torch.isfinite(value).all(), key


@every_method
def test_no_sample_is_handed_out_twice(name: str) -> None:
    """Each training sample once (a joint method: once an epoch): what a method sees again comes out of what it kept."""
    spec = small_spec(name, "short")
    data = load("short")
    seen: list[bytes] = []
    cls = get_method(name)
    observe = cls.observe

    def spy(self: Any, x: Tensor, y: Tensor) -> Any:
        seen.extend(image.numpy().tobytes() for image in x.contiguous())
        return observe(self, x, y)

    cls.observe = spy
    try:
        run(spec, data)
    finally:
        cls.observe = observe
    passes = spec.config["epochs"] if cls.joint else 1
    whole = len(data.y_train) - (len(data.y_train) % spec.config["batch"] if cls.joint else 0)
    assert len(seen) == passes * whole
    assert max(seen.count(image) for image in set(seen)) == passes


@every_method
def test_bf16_runs_and_stays_finite(name: str) -> None:
    result = execute(small_spec(name, "short", precision="bf16"))
    assert np.isfinite(result.matrix[-1]).all()
    assert result.spec.run_id != finished(name, "short")[0].spec.run_id


@every_method
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_runs(name: str) -> None:
    result = execute(small_spec(name, "short", width=8), device="cuda")
    assert np.isfinite(result.matrix[-1]).all()


@every_method
def test_every_constant_is_documented(name: str) -> None:
    cls = get_method(name)
    for key, field in cls.config_class.model_fields.items():
        assert field.description, f"{name}: {key} has no sentence"
    assert cls.title
    config = cls.config_class()
    problem = build_method(small_spec(name, "short"), get_info("short"), "cpu").problem
    assert config.resolve(problem) == config.resolve(problem).resolve(problem)
