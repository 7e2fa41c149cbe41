"""Results as pandas frames."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from emi_bench.metrics import METRICS, all_metrics
from emi_bench.store.schema import COLUMNS, NewerSchema, read_provenance
from emi_bench.store.store import Store

T = TypeVar("T")

#: Columns of a result that are the same in all its rows.
RUN_COLUMNS = [c for c in COLUMNS if c not in ("after_task", "task", "accuracy", "n_test")]

#: Those of them that only the table knows.
MEASURED = ["ms_per_batch", "peak_memory_bytes", "n_params", "wall_seconds"]

#: Provenance that `load_runs` gives a column each.
TOLD = ["class_order", "data_fingerprint", "losses", "versions", "git_sha", "threads", "started", "finished", "command"]
ORDER = ["dataset", "method", "variant", "memory", "seed"]


def _each(store: Store, read: Callable[[pq.ParquetFile], T]) -> list[T]:
    """What `read` makes of all readable results. A damaged one is named and set aside; one of a newer program is named
    and left where it is, as is one that went away meanwhile. A store that cannot be read is an error.
    """
    found = []
    for path in store.results().values():
        content = store.files.read(path)
        if content is None:
            continue
        try:
            found.append(read(pq.ParquetFile(pa.BufferReader(content), pre_buffer=False)))  # it is in memory
        except NewerSchema as e:
            warnings.warn(f"{store.files.full(path)} is left out: {e}", NewerSchema, stacklevel=3)
        except (pa.ArrowException, OSError, ValueError, LookupError) as e:  # the bytes are here: it is not the disk
            store.set_aside(path, str(e).splitlines()[0][:200])
    return found


def _table(file: pq.ParquetFile) -> pa.Table:
    read_provenance(file.schema_arrow.metadata)
    return file.read(use_threads=False).replace_schema_metadata(None)


def load_results(path: str | Path = "results") -> pd.DataFrame:
    """One row per (run, after_task, task), for every result below `path`; the columns of `store.schema.COLUMNS`."""
    tables = _each(Store(path), _table)
    if not tables:
        empty = pa.schema([(name, dtype) for name, (dtype, _) in COLUMNS.items()]).empty_table()
        frame: pd.DataFrame = empty.to_pandas()
        return frame
    frame = pa.concat_tables(tables, promote_options="default").to_pandas()
    return frame.sort_values([*ORDER, "after_task", "task"], ignore_index=True)


def load_runs(path: str | Path = "results") -> pd.DataFrame:
    """One row per run: its settings, every metric, the accuracy matrix, and its whole provenance."""
    rows = _each(Store(path), _run_row)
    for n in {row["n_tasks"] for row in rows}:  # a call for all matrices of a size, not one for each
        alike = [row for row in rows if row["n_tasks"] == n]
        values = all_metrics(np.stack([row["matrix"] for row in alike]))
        for i, row in enumerate(alike):
            row.update((name, values[name][i]) for name in METRICS)
    columns = [*RUN_COLUMNS, *METRICS, "matrix", "config", "protocol", *TOLD]
    return pd.DataFrame(rows, columns=columns).sort_values(ORDER, ignore_index=True)


def _run_row(file: pq.ParquetFile) -> dict[str, Any]:
    told = read_provenance(file.schema_arrow.metadata)
    spec = told["spec"]
    # What the provenance repeats is taken from there: a column that says the same in every row costs as much as others.
    table = file.read(columns=["after_task", "task", "accuracy", *MEASURED], use_threads=False)
    known = told | spec["protocol"] | spec
    same = {name: table[name][0].as_py() if name in MEASURED else known[name] for name in RUN_COLUMNS}
    matrix = np.full((same["n_tasks"], same["n_tasks"]), np.nan)
    i, j = table["after_task"].to_numpy() - 1, table["task"].to_numpy() - 1
    matrix[i, j] = table["accuracy"].to_numpy()
    of_spec = {"config": spec["config"], "protocol": spec["protocol"]}
    return same | {"matrix": matrix} | of_spec | {k: told[k] for k in TOLD}
