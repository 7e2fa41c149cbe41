"""Accuracy while the stream ran, of the runs that measured it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from emi_bench.store.reading import Unreadable, read_curve
from emi_bench.store.schema import CURVE_SCHEMA
from emi_bench.store.store import Store, anytime_path

#: What says whose curve it is.
OF_RUN = ["run_id", "cell_id", "method", "variant", "dataset", "n_tasks", "memory", "seed"]


def load_anytime(path: str | Path = "results") -> pd.DataFrame:
    """One row per (run, point, task begun): the run (`OF_RUN`), `step` and `samples` of the stream, `task` (the current
    one, from 1), `of_task`, `accuracy`, `n_test`; at task ends also `into`, how many of the task's images were taken
    for a class of each task. `emi_bench.anytime` has the metrics. A damaged file is named and left.
    """
    from emi_bench.store.frames import load_runs

    store = Store(path)
    beside = store.beside()
    frames = []
    for run in load_runs(path)[OF_RUN].to_dict("records"):
        where = anytime_path(run["run_id"])
        content = store.files.read(where) if where in beside else None
        if content is None:
            continue
        try:
            rows: pd.DataFrame = read_curve(content).to_pandas()
            frames.append(rows.assign(**{str(k): v for k, v in run.items()}))
        except Unreadable as e:
            store.warn_damaged(where, str(e))
    columns = [*OF_RUN, *CURVE_SCHEMA.names]
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)
