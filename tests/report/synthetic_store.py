"""SYNTHETIC runs as a store's files, in a temporary folder: for tests and benchmarks/report.py, never in results/."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from emi_bench.store.schema import COLUMNS, KEY
from tests.report.synthetic import N_TEST

TOLD = ["class_order", "data_fingerprint", "versions", "git_sha", "device", "threads", "started", "finished", "command"]
SPEC = ["method", "variant", "dataset", "memory", "seed", "config", "changed"]
PROTOCOL = ["n_tasks", "batch", "replay_batch", "width", "precision"]


def write_store(runs: pd.DataFrame, root: Path) -> Path:
    """One Parquet file a run, with the provenance where the store keeps it."""
    schema = pa.schema([(name, dtype) for name, (dtype, _) in COLUMNS.items()])
    for run in runs.to_dict("records"):
        after, task = np.nonzero(~np.isnan(run["matrix"]))
        own = {
            "after_task": after + 1, "task": task + 1, "accuracy": run["matrix"][after, task],
            "n_test": np.full(len(task), N_TEST.get(run["dataset"], 200)),
        }  # fmt: skip
        columns = {name: own[name] if name in own else [run[name]] * len(task) for name in COLUMNS}
        told = {k: run[k] for k in TOLD} | {
            "schema_version": run["schema_version"], "run_id": run["run_id"], "losses": [],
            "spec": {k: run[k] for k in SPEC} | {"method_version": 1}
            | {"protocol": run["protocol"] | {k: run[k] for k in PROTOCOL}},
        }  # fmt: skip
        table = pa.table(columns, schema=schema).replace_schema_metadata({KEY: json.dumps(told).encode()})
        folder = root / run["dataset"] / run["method"]
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, folder / f"{run['seed']}-{run['run_id']}.parquet", compression="zstd")
    return root


def synthetic_features(run_id: str, n: int = 240, width: int = 16) -> pd.DataFrame:
    """SYNTHETIC features: ten clusters on the sphere, half of them for each split."""
    rng = np.random.default_rng(int(run_id[:8], 16))
    label = np.arange(n) % 10
    x = rng.standard_normal((10, width))[label] + 0.7 * rng.standard_normal((n, width))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    frame = pd.DataFrame(x, columns=[f"f{i}" for i in range(width)])
    split = np.where(np.arange(n) // 10 % 2, "test", "train")
    return pd.concat([pd.DataFrame({"split": split, "label": label, "task": label // 2 + 1}), frame], axis=1)
