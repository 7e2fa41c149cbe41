"""What runs left beside their results, read by run: features."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from emi_bench.store.reading import Unreadable, read_features
from emi_bench.store.store import Store, feature_path


def side_reader(
    path: str | Path, place: Callable[[str], str], read: Callable[[bytes], Any]
) -> Callable[[str], pd.DataFrame | None]:
    """A function from a run's id to the file it left at a place, or to None where it left none. The store is listed
    once; a damaged file is named and left, as a damaged result is."""
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


def feature_reader(path: str | Path = "results") -> Callable[[str], pd.DataFrame | None]:
    """From a run's id to its features: split, label, task, f0 ..."""
    return side_reader(path, feature_path, read_features)
