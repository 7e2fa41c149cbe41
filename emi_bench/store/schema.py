"""A result as a Parquet table: one row per (after_task, task), provenance and a checksum in the schema's metadata."""

from __future__ import annotations

import hashlib
import json
import math
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from emi_bench.run.result import RunResult

SCHEMA_VERSION = 1
KEY = b"emi_bench"
CHECKSUM = b"emi_bench_sha256"  #: files before 0.2.0 have none

#: Column names, types and meaning: the contract with pandas users (docs/results.md).
COLUMNS: dict[str, tuple[pa.DataType, str]] = {
    "run_id": (pa.string(), "sha256 of the resolved spec"),
    "method": (pa.string(), "registry name"),
    "variant": (pa.string(), "a sweep's name for its config; empty where nobody gave one"),
    "dataset": (pa.string(), "registry name, or the name of a user's own data"),
    "n_tasks": (pa.int32(), "tasks of the stream"),
    "memory": (pa.int32(), "slots; 0 for a method without memory"),
    "seed": (pa.int64(), "class order, stream, weights and choices derive from it"),
    "after_task": (pa.int32(), "tasks learned so far, from 1"),
    "task": (pa.int32(), "the task tested, from 1 to after_task"),
    "accuracy": (pa.float64(), "share of right predictions, 0-1"),
    "n_test": (pa.int32(), "test images of the task"),
    "batch": (pa.int32(), "stream samples a step"),
    "replay_batch": (pa.int32(), "memory samples a step"),
    "width": (pa.int32(), "nf of the reduced ResNet-18"),
    "precision": (pa.string(), "fp32 or bf16"),
    "ms_per_batch": (pa.float64(), "median milliseconds of a training step"),
    "peak_memory_bytes": (pa.int64(), "CUDA peak, or the process's resident peak on a CPU"),
    "n_params": (pa.int64(), "parameters of the trained network"),
    "wall_seconds": (pa.float64(), "whole run, evaluation included, over all sittings"),
    "device": (pa.string(), "name of the GPU, or cpu"),
    "schema_version": (pa.int32(), "of this file"),
}


SCHEMA = pa.schema([(name, dtype) for name, (dtype, _) in COLUMNS.items()])

#: What no other column says: the accuracies, and what only the run itself could measure.
ENTRIES = ["after_task", "task", "accuracy"]
MEASURED = ["ms_per_batch", "peak_memory_bytes", "n_params", "wall_seconds"]


#: Folders of what runs leave beside their results.
FEATURES, ANYTIME = "_features", "_anytime"
#: Accuracy while the stream runs (`run.result.CURVE`): a row for every task begun, at every point.
CURVE_SCHEMA = pa.schema(
    [
        ("step", pa.int32()),
        ("samples", pa.int32()),
        ("task", pa.int16()),
        ("of_task", pa.int16()),
        ("accuracy", pa.float64()),
        ("n_test", pa.int32()),
        ("into", pa.list_(pa.int32())),
    ]
)


def to_table(result: RunResult) -> pa.Table:
    """The result's rows and its provenance."""
    spec = result.spec
    rows = [
        (i + 1, j + 1, float(result.matrix[i, j]), result.n_test[j])
        for i in range(spec.n_tasks)
        for j in range(i + 1)
        if not math.isnan(result.matrix[i, j])
    ]
    named = {"run_id": spec.run_id, "schema_version": SCHEMA_VERSION}
    told = dict.fromkeys(ENTRIES) | vars(result) | dict(spec.protocol) | dict(spec) | named
    columns = {name: [told[name]] * len(rows) for name in COLUMNS}
    for name, values in zip(("after_task", "task", "accuracy", "n_test"), zip(*rows, strict=True), strict=True):
        columns[name] = list(values)
    table = pa.table(columns, schema=SCHEMA)
    about = json.dumps(provenance(result), sort_keys=True).encode()
    return table.replace_schema_metadata({KEY: about, CHECKSUM: checksum(about, table)})


def checksum(told: bytes, table: pa.Table) -> bytes:
    """Of all that `load_runs` takes from a file. The pages of the other columns have checksums of their own."""
    sha = hashlib.sha256(told)
    for name in [*ENTRIES, *MEASURED]:
        sha.update(table[name].to_numpy().tobytes())
    return sha.hexdigest().encode()


def provenance(result: RunResult) -> dict[str, Any]:
    """Everything needed to trust the numbers and to get them again."""
    spec = result.spec
    others = {name: [row[: i + 1].tolist() for i, row in enumerate(matrix)] for name, matrix in result.others.items()}
    told = ("class_order", "data_fingerprint", "losses", "device", "threads", "started", "finished")
    return {name: getattr(result, name) for name in told} | ({"others": others} if others else {}) | {
        "schema_version": SCHEMA_VERSION,
        "spec": spec.model_dump(mode="json"),
        "run_id": spec.run_id,
        "cell_id": spec.cell_id,
        "command": spec.command(),
        "versions": versions(),
        "git_sha": git_sha(),
    }  # fmt: skip


@cache
def versions() -> dict[str, str]:
    """Of this package and of what the numbers depend on."""
    found = {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}
    found["processor"] = processor()
    for package in ("emi-bench", "torch", "torchvision", "numpy", "ray", "pyarrow", "scikit-learn"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def processor() -> str:
    """Its name and its widest vectors, on which the last bits of a sum depend; empty where the system does not say."""
    try:
        told = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:
        return platform.processor()
    fields = {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in told.splitlines())}
    flags = fields.get("flags", "").split()
    vectors = [name for name in ("amx_tile", "avx512f", "avx2") if name in flags][:1]
    return " ".join([fields.get("model name", platform.processor()), *vectors])


@cache
def git_sha() -> str:
    """The commit of the source tree, `-dirty` where it was changed; empty outside a checkout."""
    here = Path(__file__).parent
    try:
        args = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        done = subprocess.run(args, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
