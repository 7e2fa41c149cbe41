"""SYNTHETIC frames with the full grid's shape: invented numbers for the report's tests, never results of any run.

`synthetic_runs` answers what `emi_bench.load_runs` would (one row a run), `tidy` what `emi_bench.load_results` would.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from emi_bench import metrics, reference
from emi_bench.facts import built_in_facts
from emi_bench.report.axes import papers_rows

PAPER_SETTINGS = [
    (dataset, d["n_tasks"], memory)
    for dataset, d in reference.settings()["datasets"].items()
    for memory in d["memories"]
]
ALL_METHODS = [row.method for row in papers_rows()]
EMI_CONFIG: dict[str, Any] = {
    "lr": 1e-3, "alpha": 0.1, "alpha_b": 0.2, "n_proto": 6, "dualnet": True, "dmi": True, "rmi": True, "smi": True,
    "dmi_threshold": "exp", "fast_net": "chain",
}  # fmt: skip
N_TEST = {"cifar10": 2000, "cifar100": 1000, "tinyimagenet": 100, "digits": 72}


@dataclass(frozen=True)
class Cell:
    method: str
    dataset: str
    n_tasks: int
    memory: int
    variant: str = ""
    changes: tuple[tuple[str, Any], ...] = ()
    shift: float = 0.0


@cache
def target(cell: Cell) -> tuple[float, float]:
    """Final accuracy and forgetting the invented matrix aims at, in 0-1."""
    acc = _paper("average_accuracy", cell) or 0.2 + 0.05 * (len(cell.method) + np.log1p(cell.memory)) / 2
    forg = _paper("forgetting", cell) or min(0.6, 0.9 - acc)
    return acc + cell.shift, forg


def _paper(metric: str, cell: Cell) -> float:
    v = reference.values(metric, reference.PAPER)
    v = v[(v["method"] == cell.method) & (v["dataset"] == cell.dataset)]
    hit = v[(v["memory"] == cell.memory)] if cell.memory else v
    return float(hit["mean"].iloc[0]) / 100 if len(hit) else 0.0


def matrix_of(cell: Cell, seed: int) -> np.ndarray:
    """An invented accuracy matrix: exponential decay from the diagonal to the last row, noise shared by the seed."""
    t, n_test = cell.n_tasks, N_TEST.get(cell.dataset, 200)
    shared = np.random.default_rng([7, seed, t])
    digest = hashlib.sha256(repr((cell, seed)).encode()).digest()
    own = np.random.default_rng(list(digest[:16]))
    acc, forg = target(cell)
    easy = 0.03 * shared.standard_normal(t) + 0.008 * shared.standard_normal()
    last = np.clip(acc + easy + 0.006 * own.standard_normal(t), 0.002, 0.995)
    diagonal = np.clip(last + forg + 0.02 * own.standard_normal(t), 0.0, 0.999)
    diagonal[-1] = last[-1]
    k, j = np.indices((t, t))
    age = np.clip(k - j, 0, None) / np.maximum(t - 1 - j, 1)
    a = last + (diagonal - last) * np.exp(-4 * age)
    a[-1] = last
    a = np.round(np.clip(a, 0, 1) * n_test) / n_test
    a[j > k] = np.nan
    if cell.method == "offline":
        a[:-1] = np.nan
    return a


def run_row(cell: Cell, seed: int, **over: Any) -> dict[str, Any]:
    """One row of the runs frame."""
    a = matrix_of(cell, seed)
    config = dict(EMI_CONFIG) if cell.method == "emi" else {"lr": 0.1}
    config |= dict(cell.changes)
    sets = "".join(f" --set {k}={json.dumps(v)}" for k, v in cell.changes)
    memory = f" --memory {cell.memory}" if cell.memory else ""
    rng = np.random.default_rng([seed, len(cell.method)])
    row: dict[str, Any] = {
        "run_id": hashlib.sha256(repr((cell, seed, "run")).encode()).hexdigest(),
        "method": cell.method, "variant": cell.variant, "dataset": cell.dataset, "n_tasks": cell.n_tasks,
        "memory": cell.memory, "seed": seed, "batch": 10, "replay_batch": 64, "width": 20, "precision": "fp32",
        "ms_per_batch": 20.0 + 4 * ALL_METHODS.index(cell.method) if cell.method in ALL_METHODS else 50.0,
        "peak_memory_bytes": int(1e9 + 1e7 * rng.integers(0, 9)), "n_params": 1_109_240,
        "wall_seconds": float(100 + rng.integers(0, 20)), "device": "synthetic", "schema_version": 1,
        **metrics.all_metrics(a),
        "matrix": a, "config": config, "changed": dict(cell.changes),
        "class_order": [int(c) for c in np.random.default_rng(seed).permutation(10)],
        "data_fingerprint": f"fingerprint-of-{cell.dataset}", "versions": {"torch": "0", "emi-bench": "0"},
        "git_sha": "0" * 40, "threads": 1, "started": "2020-01-01T00:00:00+00:00",
        "finished": f"2020-01-01T00:{seed % 60:02d}:00+00:00",
        "command": f"emi-bench run --method {cell.method} --dataset {cell.dataset}{memory} --seed {seed}{sets}",
        "protocol": {"n_tasks": cell.n_tasks, "batch": 10, "replay_batch": 64, "width": 20, "precision": "fp32",
                     "reservoir": "batched", "class_order": "seed"},
    }  # fmt: skip
    return row | over


def grid_cells(
    methods: Sequence[str] = tuple(ALL_METHODS), settings: Iterable[tuple[str, int, int]] = tuple(PAPER_SETTINGS)
) -> list[Cell]:
    """Every method on every setting; a memory-free method once a data set."""
    info = built_in_facts()
    cells: dict[Cell, None] = {}
    for dataset, n_tasks, memory in settings:
        for m in methods:
            uses = info[m].uses_memory if m in info else True
            cells[Cell(m, dataset, n_tasks, memory if uses else 0)] = None
    return list(cells)


def study_cells(dataset: str = "cifar100", n_tasks: int = 10, memory: int = 1000) -> list[Cell]:
    """The ablation, alpha, prototype and readings sweeps without the default, which the grid already has."""
    base = Cell("emi", dataset, n_tasks, memory)
    rows: list[Cell] = []

    def add(name: str, shift: float, **changes: Any) -> None:
        rows.append(Cell("emi", dataset, n_tasks, memory, name, tuple(changes.items()), shift))

    full = {"dualnet": True, "dmi": True, "rmi": True, "smi": True}
    off = [(0, 0, 0, 0), (1, 0, 0, 0), (1, 1, 0, 0), (1, 0, 1, 0), (1, 1, 1, 0), (1, 1, 0, 1)]
    for k, flags in enumerate(off):
        on = dict(zip(full, map(bool, flags), strict=True))
        add(f"ablation{k}", -0.08 + 0.013 * k, **{f: v for f, v in on.items() if not v})
    for a in (0.0, 0.1, 0.2, 0.3):
        for b in (0.0, 0.2, 0.4, 0.6):
            changes = {k: v for k, v, d in (("alpha", a, 0.1), ("alpha_b", b, 0.2)) if v != d}
            if changes:
                add(f"alpha{a}-{b}", -0.02 * abs(a - 0.1) - 0.01 * abs(b - 0.2), **changes)
    for n in (1, 3, 9, 12):
        add(f"np{n}", -0.002 * abs(n - 6), n_proto=n)
    add("threshold-cos", -0.01, dmi_threshold="cos")
    add("same-level", 0.012, fast_net="same_level")
    assert base not in rows
    return rows


def synthetic_runs(
    cells: Iterable[Cell] | None = None,
    seeds: Iterable[int] = range(10),
    gaps: Iterable[tuple[str, str, int, int]] = (),
) -> pd.DataFrame:
    """The runs frame. `gaps`: (method, dataset, memory, seed) that are missing."""
    cells = [*grid_cells(), *study_cells()] if cells is None else list(cells)
    missing = set(gaps)
    rows = [
        run_row(c, s) for c in cells for s in seeds if (c.method, c.dataset, c.memory, s) not in missing or c.variant
    ]
    return pd.DataFrame(rows)


def tidy(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per (run, after_task, task), as the store's Parquet files give."""
    keep = ["run_id", "method", "variant", "dataset", "n_tasks", "memory", "seed", "batch", "replay_batch", "width",
            "precision", "ms_per_batch", "peak_memory_bytes", "n_params", "wall_seconds", "device",
            "schema_version"]  # fmt: skip
    parts = []
    for _, run in runs.iterrows():
        a = run["matrix"]
        after, task = np.nonzero(~np.isnan(a))
        part = pd.DataFrame({"after_task": after + 1, "task": task + 1, "accuracy": a[after, task]})
        part["n_test"] = N_TEST.get(run["dataset"], 200)
        parts.append(part.assign(**{k: run[k] for k in keep}))
    return pd.concat(parts, ignore_index=True)


def digits_runs(
    seeds: Iterable[int] = range(3), methods: Sequence[str] = ("finetune", "er", "ocm", "emi")
) -> pd.DataFrame:
    """A small grid that is not the paper's: digits, five tasks, two memories."""
    return synthetic_runs(grid_cells(methods, [("digits", 5, 50), ("digits", 5, 100)]), seeds)
