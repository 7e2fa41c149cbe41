"""`--log`: the loggers that Tune has."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emi_bench.errors import UserError
from emi_bench.sweep.executors.ray import private

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
    if name == "tensorboard" and not private.tried():
        raise UserError("--log tensorboard does not know this version of Ray", hint="use --log mlflow or --log wandb")
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
        return private.curves(f"{folder(name, results)}/{sweep}", curve_of)
    keywords: dict[str, dict[str, str]] = {
        "mlflow": {"experiment_name": sweep},
        "wandb": {
            "project": sweep,
            "dir": os.environ.get("WANDB_DIR") or folder(name, results) or str(Path.cwd()),
        },
    }
    callback: tune.Callback = getattr(importlib.import_module(module), attribute)(**keywords.get(name, {}))
    return callback
