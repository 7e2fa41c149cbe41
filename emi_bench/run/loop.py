"""RunSpec -> RunResult: the online loop, evaluation, timing. Knows no Ray and no files."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
import torch

from emi_bench.data import DataInfo
from emi_bench.data.dataset import DataSet
from emi_bench.data.stream import LastBatch, Stream, TestSet, cut
from emi_bench.draws import Draws
from emi_bench.methods import Method, get_method
from emi_bench.methods.ema import averaged_where_asked
from emi_bench.run.anytime import CurveWatcher
from emi_bench.run.checkpoint import Checkpoint, State, UnusableCheckpoint
from emi_bench.run.evaluation import EvalWindow
from emi_bench.run.features import extract_features
from emi_bench.run.measure import LossWindow, StepTimer, peak_memory_bytes, reset_peak_memory
from emi_bench.run.resolve import make_problem
from emi_bench.run.result import RunResult
from emi_bench.run.spec import RunSpec
from emi_bench.seeds import seed_for


@dataclass(frozen=True)
class Progress:
    """Where a run stands; sent after every window of steps and after every task."""

    phase: int  #: tasks (epochs of a joint method) finished before this one
    n_phases: int
    step: int  #: steps done in this phase
    n_steps: int
    accuracy: float | None = None  #: average accuracy after the last evaluation


@dataclass
class Phase:
    """One stretch of the stream between two checkpoints: a task, or an epoch of a joint method."""

    indices: np.ndarray
    batch: int
    last: LastBatch
    ends_task: bool = True  #: and is evaluated

    @cached_property
    def batches(self) -> list[slice]:
        return cut(len(self.indices), self.batch, self.last)

    @property
    def n_steps(self) -> int:
        return len(self.batches)


def phases(
    method: Method, stream: Stream, batch: int, last: LastBatch = "merge", blur: float | None = None
) -> list[Phase]:
    """The stream cut where a checkpoint is taken. A joint method has its own batches, of which it drops the last."""
    if method.joint:
        epochs, size = method.config.epochs, method.config.batch  # type: ignore[attr-defined]
        everything = np.arange(len(stream.data.y_train))
        orders = [
            np.random.default_rng(seed_for(stream.seed, "stream", e)).permutation(everything) for e in range(epochs)
        ]
        return [Phase(o, size, "drop", ends_task=e == epochs - 1) for e, o in enumerate(orders)]
    if blur is not None:
        return [Phase(order, batch, last) for order in stream.blurry_orders(blur)]
    tasks = range(len(stream.tasks))
    if method.balanced_stream:
        return [Phase(stream.balanced_order(t, batch), stream.balanced_batch(t, batch), last) for t in tasks]
    return [Phase(stream.order(t), batch, last) for t in tasks]


def run(
    spec: RunSpec,
    data: DataSet,
    *,
    device: str = "cpu",
    resume: Checkpoint | None = None,
    on_checkpoint: Callable[[Checkpoint], None] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> RunResult:
    """Run a spec from its beginning, or from the checkpoint `resume`; `on_checkpoint` gets one after every phase."""
    spec.protocol.reduction.confirm(data)
    data = data.to(device)
    stream = Stream.of(data, spec.n_tasks, spec.seed, spec.protocol.class_order, spec.protocol.groups)
    test = TestSet.of(stream)
    method = build_method(spec, data.info, device)
    state = State(started=_now(), watched=spec.anytime.model_dump() if spec.anytime else None)
    if resume is not None:
        state = _restore(method, spec, resume)
    tell = on_progress or (lambda progress: None)
    reset_peak_memory(device)
    sitting, before = time.perf_counter(), state.wall_seconds

    blur = spec.protocol.blur if spec.protocol.stream == "blurry" else None
    plan = phases(method, stream, spec.protocol.batch, spec.protocol.last_batch, blur)
    watcher = CurveWatcher(state.curve, method, stream, test, spec.anytime) if spec.anytime else None
    while state.phase < len(plan):
        phase = plan[state.phase]
        seen = spec.n_tasks if method.joint else len(state.matrix) + 1
        window = EvalWindow(method, test, seen, spec.protocol.eval_window, phase.n_steps) if phase.ends_task else None
        curve = watcher.of_task(seen, [p.batches for p in plan[: state.phase]], phase.batches) if watcher else None
        looks = [look.after for look in (window, curve) if look is not None]
        with _precision(spec, device):
            _learn(method, stream, plan, state, device, tell, looks, spec.train_every)
            if window is not None:
                if blur is None:  # nobody says where tasks of a blurry stream end
                    method.end_task()
                state.matrix.append(window.close())
                for name, row in window.others.items():
                    state.others.setdefault(name, []).append(row)
            if curve is not None:
                curve.close()
        state.phase += 1
        state.wall_seconds = before + time.perf_counter() - sitting
        state.peak = max(state.peak, peak_memory_bytes(device))
        if on_checkpoint is not None:
            on_checkpoint(_checkpoint(method, spec, state))
        n_steps = plan[state.phase].n_steps if state.phase < len(plan) else 0
        tell(Progress(state.phase, len(plan), 0, n_steps, state.accuracy))

    features = None
    if spec.features:
        with _precision(spec, device):
            features = extract_features(method, stream, spec.seed)
    return RunResult(
        spec=spec,
        matrix=_square(state.matrix, spec.n_tasks),
        n_test=test.sizes(),
        class_order=stream.class_order,
        data_fingerprint=data.fingerprint,
        losses=state.losses,
        ms_per_batch=_typical(state.step_ms),
        peak_memory_bytes=state.peak,
        n_params=sum(p.numel() for p in method.net.parameters()),
        wall_seconds=state.wall_seconds,
        started=state.started,
        finished=_now(),
        device=torch.cuda.get_device_name(device) if device.startswith("cuda") else "cpu",
        threads=torch.get_num_threads(),
        features=features,
        curve=state.curve if spec.anytime else None,
        others={name: _square(rows, spec.n_tasks) for name, rows in state.others.items()},
    )


def _learn(
    method: Method,
    stream: Stream,
    plan: list[Phase],
    state: State,
    device: str,
    tell: Callable[[Progress], None],
    looks: Sequence[Callable[[int], None]],
    train_every: int = 1,
) -> None:
    """One phase of the stream, step by step; who cannot keep up never sees the batches between. Losses are looked at
    only now and then: a look waits for the device.
    """
    phase = plan[state.phase]
    before = sum(p.n_steps for p in plan[: state.phase])
    timer, recent = StepTimer(device), LossWindow(first_step=before)
    for step, (x, y) in enumerate(stream.batches(phase.indices, phase.batch, phase.last), 1):
        if (before + step - 1) % train_every == 0:
            with timer.step():
                losses = method.observe(x, y)
            if recent.add(losses):
                timer.collect()
                tell(Progress(state.phase, len(plan), step, phase.n_steps, state.accuracy))
        for look in looks:
            look(step)
    recent.flush()
    state.losses.append(recent.means())
    state.step_ms += timer.collect()


def build_method(spec: RunSpec, info: DataInfo, device: str) -> Method:
    """The method of a spec, untrained, for the data that `info` describes; weights and choices derive from the seed."""
    problem = make_problem(info, spec.memory, spec.protocol)
    cls = get_method(spec.method)
    method = cls.build(
        cls.config_class(**spec.config),
        problem,
        weight_seed=seed_for(spec.seed, "weights"),
        draws=Draws(seed_for(spec.seed, "method")),
        device=device,
    )
    method = averaged_where_asked(method)
    method.train()
    return method


def _precision(spec: RunSpec, device: str) -> contextlib.AbstractContextManager[Any]:
    # No cache: autocast would keep its bf16 copies of the weights for the whole task, whatever the optimiser does.
    enabled = spec.protocol.precision == "bf16"
    return torch.autocast(device.split(":")[0], dtype=torch.bfloat16, enabled=enabled, cache_enabled=False)


def _checkpoint(method: Method, spec: RunSpec, state: State) -> Checkpoint:
    return Checkpoint(spec.run_id, torch.get_num_threads(), method.state_dict(), replace(state), spec.features)


def _restore(method: Method, spec: RunSpec, checkpoint: Checkpoint) -> State:
    if checkpoint.run_id != spec.run_id:
        raise ValueError(f"the checkpoint is of run {checkpoint.run_id[:12]}, not of {spec.run_id[:12]}")
    try:
        method.load_state_dict(checkpoint.method)
    except (RuntimeError, LookupError, TypeError, ValueError) as e:  # the method's code has changed since
        raise UnusableCheckpoint(f"it does not fit the method: {str(e).splitlines()[0][:200]}") from e
    if spec.anytime is None:
        return replace(checkpoint.state, watched=None, curve=[])
    if checkpoint.state.watched != spec.anytime.model_dump():
        raise UnusableCheckpoint("accuracy was not measured as it is asked for now; the run begins anew")
    return replace(checkpoint.state)


def _square(rows: list[list[float]], n_tasks: int) -> np.ndarray:
    matrix = np.full((n_tasks, n_tasks), np.nan)
    for i, row in zip(range(n_tasks - len(rows), n_tasks), rows, strict=True):
        matrix[i, : len(row)] = row
    return matrix


def _typical(step_ms: list[float]) -> float:
    """Median after a warm-up of up to ten steps."""
    if not step_ms:
        return float("nan")
    return float(np.median(step_ms[min(10, len(step_ms) // 2) :]))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
