"""One pass of Ray Tune over some cells. Imported only where Ray is."""

from __future__ import annotations

import os
import pickle
import re
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune.search import Searcher

from emi_bench.store.leftovers import SCRATCH
from emi_bench.store.processes import tag
from emi_bench.sweep.executors.protocol import Watch
from emi_bench.sweep.executors.ray import loggers
from emi_bench.sweep.executors.ray.nodes import nodes_alive
from emi_bench.sweep.executors.ray.trial import CellTrial, WorkerSpent, run_id_of
from emi_bench.sweep.job import Job
from emi_bench.sweep.outcome import Outcome
from emi_bench.sweep.plan import Cell
from emi_bench.sweep.resources import Cluster, Request, fits, slots

WORKER_LOSSES = 3  # of one run, before it is given up
IDLE = 0.15  # seconds of sleep a turn of Tune's loop when nothing happens: it would poll ten times a second
STALLED = 120.0  # seconds without a running cell
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
CAUSE = re.compile(r"^(?!ray\.)[\w.]*(?:Error|Exception|Interrupt|Exit)\b.*", re.MULTILINE)


def fit(job: Job, cells: Sequence[Cell], watch: Watch, cluster: Cluster, *, reuse: bool) -> None:
    """Run cells as Tune trials; every end is told to `watch`."""
    asked = job.asked
    kinds = list(dict.fromkeys(job.requests[c.run_id] for c in cells))
    number = {kind: i for i, kind in enumerate(kinds)}
    bundles = [kind.bundle() for kind in kinds]

    def bundle(config: dict[str, Any]) -> tune.PlacementGroupFactory:
        # Shipped to workers with the trial's class: the kind of request is in the key, so that this stays small.
        return tune.PlacementGroupFactory([bundles[int(config["cell"].partition(":")[2])]])

    configs: list[list[dict[str, Any]]] = [[] for _ in kinds]
    for cell in cells:
        kind = number[job.requests[cell.run_id]]
        configs[kind].append(_config(cell, kind))
    room = [slots([kind], cluster) for kind in kinds]
    pending = 200 if asked.autoscaling else max(8, 2 * sum(room))
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(pending)
    callbacks: list[tune.Callback] = [Watcher(watch, cells, kinds)]
    callbacks += [loggers.make(asked.log, job.sweep, job.results)] if asked.log else []
    # Where Tune keeps what nobody reads.
    with tempfile.TemporaryDirectory(prefix=f"{SCRATCH}{tag()}-", ignore_cleanup_errors=True) as folder:
        tuner = tune.Tuner(
            tune.with_resources(tune.with_parameters(CellTrial, job=job), bundle),
            tune_config=tune.TuneConfig(
                search_alg=InTurn(configs, room),
                num_samples=len(cells),
                max_concurrent_trials=asked.max_concurrent,
                reuse_actors=reuse,
                trial_name_creator=lambda trial: str(trial.config["run"]),
                trial_dirname_creator=loggers.curve_of,
            ),
            run_config=tune.RunConfig(
                name=f"{job.sweep}-{time.time_ns()}",
                storage_path=folder,
                verbose=0,
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),  # runs keep their own, in the store
                failure_config=tune.FailureConfig(max_failures=WORKER_LOSSES),
                callbacks=callbacks,
            ),
        )
        tuner.fit()


def _config(cell: Cell, kind: int) -> dict[str, Any]:
    """Of a trial: what its worker looks up, and what a logger shows."""
    spec = cell.spec
    shown = {name: getattr(spec, name) for name in ("method", "variant", "dataset", "memory", "seed")}
    return {"cell": f"{cell.run_id}:{kind}", "run": spec.label} | shown


class InTurn(Searcher):
    """One trial for each config, made when Tune wants one. Its own grid search makes all of them before the first
    starts, each with a copy of the whole grid: two seconds for 2,000 cells, and four times that for twice as many.

    Tune queues a few trials at a time. A queue of one kind of request would keep all others from free machines, so that
    each kind has its share: the next one is of the kind with the fewest under way, for what the cluster can take of it.
    """

    def __init__(self, configs: list[list[dict[str, Any]]], room: list[int]) -> None:
        super().__init__()
        self._left = [deque(of_kind) for of_kind in configs]
        self._room = room
        self._under_way = [0] * len(room)
        self._kind: dict[str, int] = {}

    def suggest(self, trial_id: str) -> dict[str, Any]:
        kinds = [k for k, left in enumerate(self._left) if left]
        kind = min(kinds, key=lambda k: self._under_way[k] / self._room[k])
        self._kind[trial_id] = kind
        self._under_way[kind] += 1
        return self._left[kind].popleft()

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        self._under_way[self._kind.pop(trial_id)] -= 1

    def save(self, checkpoint_path: str) -> None:
        """Nor kept: the store knows what is done."""


class Watcher(tune.Callback):
    """Tune's events, passed on; also the place where signals take effect and where the loop is slowed down."""

    def __init__(self, watch: Watch, cells: Sequence[Cell], kinds: Sequence[Request]) -> None:
        self.watch, self.kinds = watch, kinds
        self.cells = {c.run_id: c for c in cells}
        self.busy = time.monotonic()
        self.stalled = False

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune saves its callbacks, for a restore that never happens

    def _cell(self, trial: Any) -> Cell:
        return self.cells[run_id_of(trial.config)]

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.busy = time.monotonic()
        cell = self._cell(trial)
        if self.watch.running(cell):
            self.watch.note(f"{cell.spec.label}: its worker was lost, it goes on in another")
        self.watch.started(cell)

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        self.busy = time.monotonic()
        cell = self._cell(trial)
        if "state" in result:
            self.watch.ended(cell, Outcome(**{k: result[k] for k in Outcome.__dataclass_fields__}))
        elif "waits" in result:
            self.watch.note(f"{cell.spec.label} waits for the results: {result['waits']}")
        else:
            self.watch.progressed(cell, result["phase"], result["n_phases"], result["accuracy"])

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        error = error_of(trial)
        trace = COLOURS.sub("", str(error or "")).strip()
        if WorkerSpent.__name__ in trace:
            return  # no fault of this run: the next pass takes it
        self.watch.ended(self._cell(trial), Outcome("lost", error=lost(trial.num_failures, trace), trace=trace))

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        self.watch.tick()
        quiet = time.monotonic() - self.busy
        if quiet > STALLED and not self.watch.running() and not self.stalled:
            self.stalled = True
            self.watch.note(f"{self._why_nothing_runs()} (Ctrl-C leaves)")
        if quiet > 1 and (self.watch.running() or self.stalled):
            time.sleep(IDLE)

    def _why_nothing_runs(self) -> str:
        nodes = nodes_alive()
        if any(fits(kind, node) for kind in self.kinds for node in nodes.nodes):
            return "nothing runs yet: workers are starting, or others use the cluster; waiting"
        return "no node of the cluster can serve what is left; waiting for one"


def lost(times: int, trace: str) -> str:
    """One line on a worker that went away. If Python ended it, its last exception is the cause; else Ray knows best.

    >>> lost(4, "The actor died: Traceback\\n  File x\\nModuleNotFoundError: No module named 'mine'")
    "its worker could not start or broke 4 times: ModuleNotFoundError: No module named 'mine'"
    >>> lost(1, "The actor died unexpectedly before finishing this task.\\n\\tpid: 7")
    'its worker was lost once: killed, out of memory, or with its node (The actor died unexpectedly before finishing \
this task.)'
    """
    n = f"{times} times" if times > 1 else "once"
    if causes := CAUSE.findall(trace):
        return f"its worker could not start or broke {n}: {causes[-1]}"
    first = f" ({trace.splitlines()[0]})" if trace else ""
    return f"its worker was lost {n}: killed, out of memory, or with its node{first}"


def error_of(trial: Any) -> BaseException | None:
    """Why a trial failed. Tune's own accessor looks in the storage, where the error comes to lie only later."""
    try:
        error: BaseException = pickle.loads(Path(trial.pickled_error_file).read_bytes())
    except Exception:  # there is none, or it is of a class that is not here: the loss is told without it
        return None
    return error
