"""Results as pandas frames."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from emi_bench.metrics import METRICS, all_metrics
from emi_bench.store.reading import NewerSchema, Stored, Unreadable, parse
from emi_bench.store.schema import COLUMNS, MEASURED, SCHEMA
from emi_bench.store.store import Store

#: Columns of a result that are the same in all its rows.
RUN_COLUMNS = [c for c in COLUMNS if c not in ("after_task", "task", "accuracy", "n_test")]

#: Provenance that `load_runs` gives a column each, and what it takes from the specification; older files lack some.
TOLD = ["class_order", "data_fingerprint", "losses", "versions", "git_sha", "threads", "started", "finished", "command"]
OF_SPEC = ["config", "protocol", "source", "facts", "left_out", "by_preset", "cost", "train_every", "method_version",
           "code_sha256"]  # fmt: skip
ORDER = ["dataset", "method", "variant", "memory", "seed"]


def _each(store: Store, columns: list[str] | None = None) -> Iterator[Stored]:
    """All readable results. One that cannot be read is named and left where it is, as is one of a newer program; one
    that went away meanwhile is passed over. A store that cannot be read is an error.
    """
    for path in store.results().values():
        content = store.files.read(path)
        if content is None:
            continue
        try:
            stored = parse(content, columns)
        except NewerSchema as e:
            warnings.warn(f"{store.files.full(path)} is left out: {e}", NewerSchema, stacklevel=3)
        except Unreadable as e:
            store.warn_damaged(path, str(e))
        else:
            yield stored


def load_results(path: str | Path = "results") -> pd.DataFrame:
    """One row per (run, after_task, task), for every result below `path`: the columns of `store.schema.COLUMNS`, and
    `cell_id`."""
    tables = [_with_cell(s.table, s.cell_id) for s in _each(Store(path))] or [_with_cell(SCHEMA.empty_table(), "")]
    frame: pd.DataFrame = pa.concat_tables(tables).to_pandas()
    return frame.sort_values([*ORDER, "after_task", "task"], ignore_index=True)


def _with_cell(table: pa.Table, cell_id: str) -> pa.Table:
    return table.add_column(1, "cell_id", pa.array([cell_id] * table.num_rows, pa.string()))


def load_runs(path: str | Path = "results") -> pd.DataFrame:
    """One row per run: its settings, every metric, the accuracy matrix, and its whole provenance."""
    rows = [_run_row(stored) for stored in _each(Store(path), [])]
    for n in {row["n_tasks"] for row in rows}:  # a call for all matrices of a size, not one for each
        alike = [row for row in rows if row["n_tasks"] == n]
        values = all_metrics(np.stack([row["matrix"] for row in alike]))
        for i, row in enumerate(alike):
            row.update((name, values[name][i]) for name in METRICS)
    columns = ["run_id", "cell_id", *RUN_COLUMNS[1:], *METRICS, "matrix", "others", "changed", *OF_SPEC, *TOLD]
    return pd.DataFrame(rows, columns=columns).sort_values(ORDER, ignore_index=True)


def _run_row(stored: Stored) -> dict[str, Any]:
    told, spec = stored.told, stored.told["spec"]
    # What the provenance repeats is taken from there: a column that says the same in every row costs as much as others.
    known = told | spec["protocol"] | spec
    measured = {name: stored.table[name][0].as_py() for name in MEASURED}
    same = {name: measured[name] if name in measured else known[name] for name in RUN_COLUMNS}
    made = {"cell_id": stored.cell_id, "changed": stored.changed, "matrix": stored.matrix()}
    made["others"] = told.get("others", {})
    return same | made | {k: spec.get(k) for k in OF_SPEC} | {k: told[k] for k in TOLD}
