"""One pass of Ray Tune over some cells. Imported only where Ray is."""

from __future__ import annotations

import importlib.util
import os
import pickle
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray import tune
from ray.exceptions import RayTaskError
from ray.tune.search import Searcher

from emi_bench.errors import UserError
from emi_bench.sweep.attempt import Outcome
from emi_bench.sweep.plan import Cell
from emi_bench.sweep.worker import CellTrial, Job, WorkerSpent, run_id_of

if TYPE_CHECKING:
    from emi_bench.sweep.schedule import Execution

LOGGERS = {
    "tensorboard": ("tensorboardX", "ray.tune.logger", "TBXLoggerCallback"),
    "mlflow": ("mlflow", "ray.air.integrations.mlflow", "MLflowLoggerCallback"),
    "wandb": ("wandb", "ray.air.integrations.wandb", "WandbLoggerCallback"),
}
IDLE = 0.15  # seconds of sleep a turn of Tune's loop when nothing happens: it would poll ten times a second
STALLED = 120.0  # seconds without a running cell
LOST = "its worker was lost {n}: killed, out of memory, or with its node"


def fit(execution: Execution, cells: list[Cell], *, reuse: bool) -> None:
    """Run cells as Tune trials; every end is told to `execution`."""
    from emi_bench.sweep.schedule import WORKER_LOSSES, tune_folder

    options, files = execution.options, execution.store.files
    kinds = list(dict.fromkeys(execution.requests[c.run_id] for c in cells))
    number = {kind: i for i, kind in enumerate(kinds)}
    bundles = [kind.bundle() for kind in kinds]

    def bundle(config: dict[str, Any]) -> tune.PlacementGroupFactory:
        # Shipped to workers with the trial's class: the kind of request is in the key, so that this stays small.
        return tune.PlacementGroupFactory([bundles[int(config["cell"].partition(":")[2])]])

    pending = 200 if options.autoscaling else max(8, 2 * execution.slots())
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(pending)
    logs = f"{files.uri}/_log" if options.log in ("tensorboard", "wandb") and not files.remote else None
    callbacks: list[tune.Callback] = [Watcher(execution, cells)]
    callbacks += [logger(options.log, execution.name, logs)] if options.log else []
    with tune_folder(logs if options.log == "tensorboard" else None) as folder:
        tuner = tune.Tuner(
            tune.with_resources(tune.with_parameters(CellTrial, job=_job(execution, cells)), bundle),
            tune_config=tune.TuneConfig(
                search_alg=InTurn(_config(c, number[execution.requests[c.run_id]]) for c in cells),
                num_samples=len(cells),
                max_concurrent_trials=options.max_concurrent,
                reuse_actors=reuse,
                trial_name_creator=lambda trial: str(trial.config["run"]),
                trial_dirname_creator=folder_of,
            ),
            run_config=tune.RunConfig(
                name=f"{execution.name}-{time.time_ns()}",
                storage_path=folder,
                verbose=0,
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),  # runs keep their own, in the store
                failure_config=tune.FailureConfig(max_failures=WORKER_LOSSES),
                callbacks=callbacks,
            ),
        )
        tuner.fit()


def _job(execution: Execution, cells: list[Cell]) -> Job:
    options = execution.options
    return Job(
        sweep=execution.name,
        owner=options.owner,
        results=execution.store.files.uri,
        ttl=options.ttl,
        patience=options.patience,
        plugins=execution.plugins,
        cells={c.run_id: c.spec.model_dump_json() for c in cells},
        requests={c.run_id: execution.requests[c.run_id] for c in cells},
        data=execution.data,
        data_root=options.data_root,
    )


def _config(cell: Cell, kind: int) -> dict[str, Any]:
    """Of a trial: what its worker looks up, and what a logger shows."""
    spec = cell.spec
    shown = {name: getattr(spec, name) for name in ("method", "variant", "dataset", "memory", "seed")}
    return {"cell": f"{cell.run_id}:{kind}", "run": spec.label} | shown


def folder_of(trial: Any) -> str:
    """A trial's folder, by which tensorboard names its curve: `er-digits-M=50-seed-0-6d00f9acdab4`."""
    return re.sub(r"[^\w.+=-]+", "-", f"{trial.config['run']}-{run_id_of(trial.config)[:12]}")


class InTurn(Searcher):
    """One trial for each config, made when Tune wants one. Its own grid search makes all of them before the first
    starts, each with a copy of the whole grid: two seconds for 2,000 cells, and four times that for twice as many."""

    def __init__(self, configs: Iterable[dict[str, Any]]) -> None:
        super().__init__()
        self._configs = iter(list(configs))

    def suggest(self, trial_id: str) -> dict[str, Any]:
        return next(self._configs)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Nothing is learned from a trial."""

    def save(self, checkpoint_path: str) -> None:
        """Nor kept: the store knows what is done."""


class Watcher(tune.Callback):
    """Tune's events, passed on; also the place where signals take effect and where the loop is slowed down."""

    def __init__(self, execution: Execution, cells: list[Cell]) -> None:
        self.execution = execution
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
        if cell.run_id in self.execution.display.running:
            self.execution.display.note(f"{cell.spec.label}: its worker was lost, it goes on in another")
        self.execution.display.started(cell)

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        self.busy = time.monotonic()
        cell = self._cell(trial)
        if "state" in result:
            self.execution.ended(cell, Outcome(**{k: result[k] for k in Outcome.__dataclass_fields__}))
        else:
            self.execution.display.progressed(cell, result["phase"], result["n_phases"], result["accuracy"])

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        error = error_of(trial)
        why = str(error or "").strip().splitlines()
        if any(WorkerSpent.__name__ in line for line in why):
            return  # no fault of this run: the next pass takes it
        n = trial.num_failures
        told = LOST.format(n=f"{n} times" if n > 1 else "once")
        if why:  # of a traceback the end tells, of a dead process the beginning
            told += f" ({why[-1 if isinstance(error, RayTaskError) else 0][:200]})"
        self.execution.ended(self._cell(trial), Outcome("lost", error=told))

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        self.execution.tick()
        quiet = time.monotonic() - self.busy
        if quiet > STALLED and not self.execution.display.running and not self.stalled:
            self.stalled = True
            self.execution.display.note(
                "no node of the cluster can serve what is left; waiting for one (Ctrl-C leaves)"
            )
        if quiet > 1 and (self.execution.display.running or self.stalled):
            time.sleep(IDLE)


def error_of(trial: Any) -> BaseException | None:
    """Why a trial failed. Tune's own accessor looks in the storage, where the error comes to lie only later."""
    try:
        error: BaseException = pickle.loads(Path(trial.pickled_error_file).read_bytes())
    except Exception:  # there is none, or it is of a class that is not here: the loss is told without it
        return None
    return error


def logger(name: str, sweep: str, folder: str | None = None) -> tune.Callback:
    """A logger of Tune's, if its package is installed. `folder` takes what is to be kept on disk."""
    if name not in LOGGERS:
        raise UserError(f"--log {name} is not known", hint=f"there are {', '.join(LOGGERS)}")
    package, module, attribute = LOGGERS[name]
    if importlib.util.find_spec(package) is None:
        raise UserError(f"--log {name} needs the package {package}", hint=f"pip install {package}")
    cls = getattr(importlib.import_module(module), attribute)
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
    keywords: dict[str, dict[str, str]] = {
        "mlflow": {"experiment_name": sweep},
        "wandb": {"project": sweep, "dir": os.environ.get("WANDB_DIR") or folder or str(Path.cwd())},
    }
    callback: tune.Callback = cls(**keywords.get(name, {}))
    return callback
