"""The bytes of a result, read and verified. What is wrong with them is said; nothing is moved, nothing is guessed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from emi_bench.store import version_0_1_0
from emi_bench.store.schema import (
    ANYTIME,
    CHECKSUM,
    CURVE_SCHEMA,
    ENTRIES,
    FEATURES,
    KEY,
    MEASURED,
    SCHEMA,
    SCHEMA_VERSION,
    checksum,
)

if TYPE_CHECKING:
    from emi_bench.run.spec import Anytime

#: What every provenance has held since schema version 1; whatever lacks some of it is no result of this program.
TOLD = {
    *("schema_version", "spec", "run_id", "command", "class_order", "data_fingerprint", "losses", "versions"),
    *("git_sha", "device", "threads", "started", "finished"),
}
TYPES = {f.name: f.type for f in SCHEMA}
SPEC = {"method", "method_version", "config", "dataset", "memory", "seed", "protocol", "variant"}


class Unreadable(Exception):
    """The bytes are no sound file of ours; the message says why."""


class NewerSchema(UserWarning):
    """A sound result that only a newer program can read."""


@dataclass(frozen=True)
class Stored:
    """A result as it was stored."""

    told: dict[str, Any]  #: its provenance
    table: pa.Table

    @property
    def cell_id(self) -> str:
        """The same for all seeds of a configuration."""
        return str(self.told.get("cell_id") or version_0_1_0.cell_id(self.told["spec"]))

    @property
    def changed(self) -> dict[str, Any]:
        """What differs from the defaults of the method and the protocol."""
        spec = self.told["spec"]
        found: dict[str, Any] | None = spec.get("changed")
        return version_0_1_0.changed(spec, len(self.told["class_order"])) if found is None else found

    def matrix(self) -> np.ndarray:
        """(T,T), NaN where nothing was tested."""
        n = self.told["spec"]["protocol"]["n_tasks"]
        matrix = np.full((n, n), np.nan)
        after, task, accuracy = (self.table[name].to_numpy() for name in ENTRIES)
        matrix[after - 1, task - 1] = accuracy
        return matrix


def parquet(content: bytes, columns: list[str] | None = None) -> pa.Table:
    """A Parquet file that lies in memory; its page checksums are verified where it has some."""
    try:
        # Errors of the system are none of a disk here: the bytes have been read.
        file = pq.ParquetFile(pa.BufferReader(content), pre_buffer=False, page_checksum_verification=True)
        return file.read(columns=columns, use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as e:
        raise Unreadable(str(e).partition("\n")[0][:200]) from e


def parse(content: bytes, columns: list[str] | None = None) -> Stored:
    """A result with these columns (all, unless said) and those that its checksum is made of."""
    names = list(SCHEMA.names) if columns is None else list(dict.fromkeys([*columns, *ENTRIES, *MEASURED]))
    table = parquet(content, None if columns is None else names)
    metadata = table.schema.metadata or {}
    if KEY not in metadata:
        raise Unreadable("not an emi-bench result: its schema carries no provenance")
    told = _provenance(metadata[KEY])
    if {f.name: f.type for f in table.schema} != {name: TYPES[name] for name in names}:
        raise Unreadable("its columns are not those of a result")
    if CHECKSUM in metadata and checksum(metadata[KEY], table) != metadata[CHECKSUM]:
        raise Unreadable("its checksum does not fit its content")
    _check_tasks(table, told["spec"]["protocol"]["n_tasks"])
    return Stored(told, table.replace_schema_metadata(None))


def what_is_wrong(content: bytes, folder: str = "") -> str:
    """Of a result, or of a file in the folder of features or curves: why it cannot be read; empty for a sound one."""
    try:
        {FEATURES: read_features, ANYTIME: read_curve}.get(folder, parse)(content)
    except NewerSchema:
        return ""
    except Unreadable as e:
        return str(e)
    return ""


def read_features(content: bytes) -> pa.Table:
    """Columns split, label, task, f0 ..."""
    table = parquet(content)
    if table.column_names != ["split", "label", "task", *(f"f{i}" for i in range(table.num_columns - 3))]:
        raise Unreadable("its columns are not those of features")
    return table


def curve_table(rows: list[list[Any]], asked: Anytime | None) -> pa.Table:
    """Accuracy while a stream ran as it is stored; what was asked for goes into the schema's metadata."""
    columns = dict(zip(CURVE_SCHEMA.names, map(list, zip(*rows, strict=True)), strict=True))
    told = {b"anytime": asked.model_dump_json().encode() if asked else b"{}"}
    return pa.table(columns, schema=CURVE_SCHEMA).replace_schema_metadata(told)


def read_curve(content: bytes) -> pa.Table:
    """Columns of `run.result.CURVE`."""
    table = parquet(content)
    if not table.schema.equals(CURVE_SCHEMA):
        raise Unreadable("its columns are not those of accuracy while the stream runs")
    return table.replace_schema_metadata(None)


def _provenance(content: bytes) -> dict[str, Any]:
    try:
        told: dict[str, Any] = json.loads(content)
    except ValueError as e:
        raise Unreadable(f"its provenance is not JSON: {e}") from e
    version = told.get("schema_version") if isinstance(told, dict) else None
    if not isinstance(version, int):
        raise Unreadable("its provenance names no schema version")
    if version > SCHEMA_VERSION:
        raise NewerSchema(
            f"its schema version {version} is newer than this program's {SCHEMA_VERSION}; update emi-bench to read it"
        )
    spec: dict[str, Any] = told.get("spec") or {}
    if missing := TOLD.difference(told) or SPEC.difference(spec):
        raise Unreadable(f"its provenance lacks {', '.join(sorted(missing))}")
    if not isinstance(spec["protocol"], dict) or not isinstance(spec["protocol"].get("n_tasks"), int):
        raise Unreadable("its provenance names no number of tasks")
    return told


def _check_tasks(table: pa.Table, n_tasks: int) -> None:
    if not table.num_rows or any(table[name].null_count for name in ENTRIES):
        raise Unreadable("it has no accuracies")
    for name in ("after_task", "task"):
        values = table[name].to_numpy()
        if values.min() < 1 or values.max() > n_tasks:
            raise Unreadable(f"{name} is out of bounds: {values.min()} to {values.max()} of {n_tasks} tasks")
