"""`--log`: the loggers that Tune has."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emi_bench.errors import UserError

if TYPE_CHECKING:
    from ray import tune

LOGGERS = {
    "tensorboard": ("tensorboardX", "ray.tune.logger", "TBXLoggerCallback"),
    "mlflow": ("mlflow", "ray.air.integrations.mlflow", "MLflowLoggerCallback"),
    "wandb": ("wandb", "ray.air.integrations.wandb", "WandbLoggerCallback"),
}


def check(name: str, results: str) -> None:
    """Whether there is such a logger and its package is installed: said before any work is done."""
    if name not in LOGGERS:
        raise UserError(f"--log {name} is not known", hint=f"there are {', '.join(LOGGERS)}")
    if importlib.util.find_spec(LOGGERS[name][0]) is None:
        raise UserError(f"--log {name} needs the package {LOGGERS[name][0]}", hint=f"pip install {LOGGERS[name][0]}")
    if name == "tensorboard" and "://" in results:
        raise UserError(
            "tensorboard logs are files beside the results, and these are in a bucket",
            hint="use --log mlflow or --log wandb, or a folder for --results",
        )


def folder(name: str | None, results: str) -> str | None:
    """Where a logger keeps its files: beside the results, where that is on a disk."""
    if name not in ("tensorboard", "wandb") or "://" in results:
        return None
    Path(results, "_log").mkdir(parents=True, exist_ok=True)
    return f"{results}/_log"


def curve_of(trial: Any) -> str:
    """A trial's folder, by which tensorboard names its curve: `er-digits-M=50-seed-0-6d00f9acdab4`."""
    return re.sub(r"[^\w.+=-]+", "-", f"{trial.config['run']}-{trial.config['cell'][:12]}")


def make(name: str, sweep: str, results: str) -> tune.Callback:
    """A logger of Tune's."""
    _, module, attribute = LOGGERS[name]
    if name == "tensorboard":
        return _tensorboard(f"{folder(name, results)}/{sweep}")
    keywords: dict[str, dict[str, str]] = {
        "mlflow": {"experiment_name": sweep},
        "wandb": {
            "project": sweep,
            "dir": os.environ.get("WANDB_DIR") or folder(name, results) or str(Path.cwd()),
        },
    }
    callback: tune.Callback = getattr(importlib.import_module(module), attribute)(**keywords.get(name, {}))
    return callback


def _tensorboard(place: str) -> tune.Callback:
    from ray.tune.logger import TBXLoggerCallback

    class Kept(TBXLoggerCallback):
        """Writes where the curves are to stay. Tune's own writes to a folder of its session, and has it copied once the
        sweep is over: after Ctrl-C there would be nothing. Its flush after every point comes before the writer's thread
        has that point; one a second later has it, so that SIGKILL costs no finished task."""

        def log_trial_start(self, trial: Any) -> None:
            if trial in self._trial_writer:
                self._trial_writer[trial].close()
            self._trial_writer[trial] = self._summary_writer_cls(f"{place}/{curve_of(trial)}", flush_secs=1)
            self._trial_result[trial] = {}

    made: tune.Callback = Kept()  # type: ignore[no-untyped-call]
    return made
