"""What the page knows about every cell: its runs, packed small enough that the full grid stays under two megabytes."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emi_bench import reference
from emi_bench.report.axes import PRINTED, Row, Setting, apart, dataset_title, memory_title
from emi_bench.report.cells import TableCell
from emi_bench.report.grid import Grid
from emi_bench.report.latex import latex_table
from emi_bench.report.model import Table
from emi_bench.report.plain import csv_table
from emi_bench.report.runs import Run
from emi_bench.report.statistics import t_quantile

ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", dtype=np.uint8)
LEVELS = 4000  #: accuracies are kept to 1/4000, a hundredth of what is printed
UNKNOWN = 4095
RUN_BLOCKS, MEAN_BLOCKS = 20, 50  #: rows in which a run's matrix and a cell's mean matrix are shown, at most


def pack(values: NDArray[np.float64]) -> str:
    """Two characters a number in 0-1; NaN has a code of its own. `page.js` reads it back.

    >>> pack(np.array([0.0, 1.0, np.nan]))
    'AA-g__'
    """
    codes = np.where(np.isnan(values), UNKNOWN, np.rint(np.nan_to_num(values) * LEVELS)).astype(np.int64)
    pairs = np.stack([codes >> 6, codes & 63], axis=-1)
    return ALPHABET[pairs].tobytes().decode("ascii")


def lower(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rows up to the diagonal, one after the other."""
    return np.asarray(matrix[np.tril_indices(len(matrix))])


def coarse(matrix: NDArray[np.float64], blocks: int) -> NDArray[np.float64]:
    """(T,T) to at most `blocks` rows: means of square blocks, of what is known in each."""
    t = len(matrix)
    if t <= blocks:
        return matrix
    step = -(-t // blocks)
    edges = np.arange(0, t, step)
    known = ~np.isnan(matrix)
    total = np.add.reduceat(np.add.reduceat(np.where(known, matrix, 0.0), edges, 0), edges, 1)
    count = np.add.reduceat(np.add.reduceat(known.astype(float), edges, 0), edges, 1)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


class Pool:
    """Texts that many runs share, each kept once."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._index: dict[str, int] = {}

    def add(self, item: Any) -> int:
        key = json.dumps(item, sort_keys=True, default=str)
        if key not in self._index:
            self._index[key] = len(self.items)
            self.items.append(json.loads(key))
        return self._index[key]


class PageData:
    """Collects cells as the tables ask for them; `document()` is what the page embeds."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._cells: dict[tuple[str, ...], int] = {}
        self._out: list[dict[str, Any]] = []
        self._configs, self._facts, self._commands = Pool(), Pool(), Pool()
        self._apart = apart(grid.settings)
        self._texts: list[dict[str, dict[str, str]]] = []

    def index(self, row: Row, setting: Setting) -> int | None:
        """The number of a cell, or None where nothing ran. Columns that a memory-free run serves share one."""
        cell = self._grid.cell(row, setting)
        if not cell.n:
            return None
        key = tuple(r.run_id for r in cell.runs)
        if key not in self._cells:
            self._cells[key] = len(self._out)
            self._out.append(self._describe(row, setting, cell))
        found = self._cells[key]
        differs = self._apart.get(setting)
        column = setting.title + (f" ({differs})" if differs else "")
        if column not in self._out[found]["columns"]:
            self._out[found]["columns"].append(column)
        return found

    def _describe(self, row: Row, setting: Setting, cell: TableCell) -> dict[str, Any]:
        memory = memory_title(setting.memory) if row.uses_memory else "any memory"
        return {
            "method": row.title,
            "columns": [],
            "title": f"{row.title} · {dataset_title(setting.dataset)} · {memory}",
            "n": cell.n,
            "expected": cell.expected,
            "tasks": setting.n_tasks,
            "mean": pack(lower(coarse(cell.mean_matrix, MEAN_BLOCKS))),
            "protocol": ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in setting.protocol),
            "published": published_values(row, setting),
            "runs": [self._run(r) for r in cell.runs],
        }

    def _run(self, run: Run) -> list[Any]:
        numbers = (run.values[m.name] * m.scale for m in PRINTED)
        shown = [None if v != v else round(v, 3) for v in numbers]
        cost = [None if (v := run.values[k]) != v else round(v, 3) for k in ("ms_per_batch", "wall_seconds")]
        peak = run.values["peak_memory_bytes"]
        same = {k: v for k, v in run.about.items() if k not in ("started", "finished", "class_order")}
        order = run.about.get("class_order")
        # One text a cell: the seed is put back where the page shows it.
        command = re.sub(rf"--seed {run.seed}\b", "--seed {seed}", run.command)
        return [
            run.run_id[:16], run.seed, *shown, *cost, None if peak != peak else round(peak / 1e6),
            pack(lower(coarse(run.matrix, RUN_BLOCKS))),
            self._configs.add(run.config), self._facts.add(same), self._commands.add(command),
            str(run.about.get("finished", "")),
            " ".join(map(str, order)) if order is not None and len(order) <= 20 else "",
        ]  # fmt: skip

    def texts(self, tables: Mapping[str, Table]) -> int:
        """The number of a table's LaTeX and CSV, by metric, for the buttons that copy them."""
        self._texts.append({key: {"latex": latex_table(t), "csv": csv_table(t)} for key, t in tables.items()})
        return len(self._texts) - 1

    def document(self) -> str:
        """The JSON the page embeds, safe inside a script element."""
        kinds = [m.kind for m in PRINTED]
        metrics = [
            {"key": m.key, "name": m.name, "title": m.title, "short": m.short, "main": m.kind not in kinds[:i]}
            for i, m in enumerate(PRINTED)
        ]  # of two readings of one kind the first is the main one
        whole = {
            "metrics": metrics,
            "levels": LEVELS, "unknown": UNKNOWN, "cells": self._out, "configs": self._configs.items,
            "facts": self._facts.items, "commands": self._commands.items,
            "texts": self._texts, "t": [round(t_quantile(df), 4) for df in range(1, 100)],
        }  # fmt: skip
        text = json.dumps(whole, separators=(",", ":"), allow_nan=False, default=str)
        return text.replace("<", "\\u003c").replace("\u2028", "\\u2028")


@cache
def _published() -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for r in reference.values().to_dict("records"):
        found[r["method"], r["dataset"], r["n_tasks"], r["memory"]].append(
            {"source": reference.sources()[r["source"]]["short"], "metric": r["metric"], "mean": r["mean"],
             "std": None if r["std"] != r["std"] else r["std"]}
        )  # fmt: skip
    return found


def published_values(row: Row, setting: Setting) -> list[Mapping[str, Any]]:
    """Every published value of a cell, with its source."""
    return [] if row.variant else _published().get((row.method, setting.dataset, setting.n_tasks, setting.memory), [])
