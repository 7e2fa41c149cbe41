"""Accuracy while the stream ran, of the runs that measured it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from emi_bench.store.features import side_reader
from emi_bench.store.reading import read_curve
from emi_bench.store.schema import CURVE_SCHEMA
from emi_bench.store.store import anytime_path

#: What says whose curve it is.
OF_RUN = ["run_id", "cell_id", "method", "variant", "dataset", "n_tasks", "memory", "seed"]


def curve_reader(path: str | Path = "results") -> Callable[[str], pd.DataFrame | None]:
    """From a run's id to its points: columns of `run.result.CURVE`."""
    return side_reader(path, anytime_path, read_curve)


def load_anytime(path: str | Path = "results") -> pd.DataFrame:
    """One row per (run, point, task begun): the run (`OF_RUN`), `step` and `samples` of the stream, `task` (the current
    one, from 1), `of_task`, `accuracy`, `n_test`; at task ends also `into`, how many of the task's images were taken
    for a class of each task. `emi_bench.anytime` has the metrics. A damaged file is named and left.
    """
    from emi_bench.store.frames import load_runs

    read, frames = curve_reader(path), []
    for run in load_runs(path)[OF_RUN].to_dict("records"):
        points = read(run["run_id"])
        if points is not None:
            frames.append(points.assign(**{str(k): v for k, v in run.items()}))
    columns = [*OF_RUN, *CURVE_SCHEMA.names]
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)
