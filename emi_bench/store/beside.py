"""What runs left beside their results: features, and accuracy while the stream ran."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from emi_bench.store.frames import load_runs
from emi_bench.store.reading import Unreadable, read_curve, read_features
from emi_bench.store.schema import CURVE_SCHEMA
from emi_bench.store.store import Store, anytime_path, feature_path

#: What says whose curve it is.
OF_RUN = ["run_id", "cell_id", "method", "variant", "dataset", "n_tasks", "memory", "seed"]
Reader = Callable[[str], pd.DataFrame | None]  #: from a run's id to what it left, or to None where it left none


def feature_reader(path: str | Path = "results") -> Reader:
    """From a run's id to its features: split, label, task, f0 ..."""
    return _reader(path, feature_path, read_features)


def curve_reader(path: str | Path = "results") -> Reader:
    """From a run's id to its points: columns of `run.result.CURVE`."""
    return _reader(path, anytime_path, read_curve)


def _reader(path: str | Path, place: Callable[[str], str], read: Callable[[bytes], Any]) -> Reader:
    """The store is listed once; a damaged file is named and left, as a damaged result is."""
    store = Store(path)
    beside = store.beside()

    def of_run(run_id: str) -> pd.DataFrame | None:
        where = place(run_id)
        content = store.files.read(where) if where in beside else None
        if content is None:
            return None
        try:
            frame: pd.DataFrame = read(content).to_pandas()
        except Unreadable as e:
            beside.discard(where)
            store.warn_damaged(where, str(e))
            return None
        return frame

    return of_run


def load_anytime(path: str | Path = "results") -> pd.DataFrame:
    """One row per (run, point, task begun): the run (`OF_RUN`), `step` and `samples` of the stream, `task` (the current
    one, from 1), `of_task`, `accuracy`, `n_test`; at task ends also `into`, how many of the task's images were taken
    for a class of each task. `emi_bench.anytime` has the metrics. A damaged file is named and left.
    """
    read, frames = curve_reader(path), []
    for run in load_runs(path)[OF_RUN].to_dict("records"):
        points = read(run["run_id"])
        if points is not None:
            frames.append(points.assign(**{str(k): v for k, v in run.items()}))
    columns = [*OF_RUN, *CURVE_SCHEMA.names]
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)
