"""The features that runs left beside their results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from emi_bench.store.reading import Unreadable, read_features
from emi_bench.store.store import Store, feature_path


def feature_reader(path: str | Path = "results") -> Callable[[str], pd.DataFrame | None]:
    """A function from a run's id to its features (split, label, task, f0 ...), or to None where it kept none. The store
    is listed once; a damaged file is named and left, as a damaged result is."""
    store = Store(path)
    known = store.featured()

    def read(run_id: str) -> pd.DataFrame | None:
        content = store.files.read(feature_path(run_id)) if run_id in known else None
        if content is None:
            return None
        try:
            frame: pd.DataFrame = read_features(content).to_pandas()
        except Unreadable as e:
            known.discard(run_id)
            store.warn_damaged(feature_path(run_id), str(e))
            return None
        return frame

    return read
