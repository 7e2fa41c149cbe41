"""`make proxy-check`: a few runs of the committed proxy, run again. Do they still give the stored numbers?

With the torch version, the threads and the kind of processor of the stored run the accuracy matrix must be the same bit
for bit. With others (or with --loose) both must stay within twice the standard deviation over the stored seeds of that
cell: the average accuracy, and the entries of the matrix in the root mean square (each entry by its own deviation; two
independent runs would be 1.4 apart). That finds a broken method, not a small change: a few points of accuracy pass.
Ends with 1 where a run fails its comparison.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from rich.console import Console

from emi_bench.cli.single import Bar
from emi_bench.data import load
from emi_bench.run.loop import run
from emi_bench.run.resolve import resolve
from emi_bench.run.spec import RunSpec
from emi_bench.store import load_runs
from emi_bench.store.schema import versions
from emi_bench.terminal import duration

Array = NDArray[np.float64]
CELLS = ("er", "scr", "emi")  #: two cheap ones, and the most expensive: twenty to thirty minutes on one core
FAR = 2.0  #: standard deviations


@dataclass(frozen=True)
class Check:
    """One run again. `moved` is the change of the average accuracy, `spread` what it may be; `far` that of the matrix's
    entries in standard deviations over the seeds, root mean square."""

    label: str
    same_setup: bool
    identical: bool
    moved: float
    spread: float
    far: float

    @property
    def verdict(self) -> Literal["identical", "within the spread", "differs"]:
        if self.identical:
            return "identical"
        within = abs(self.moved) <= self.spread and self.far <= FAR
        return "within the spread" if within and not self.same_setup else "differs"


def stored_spec(row: dict[str, Any]) -> RunSpec:
    """The spec of a stored run, resolved by this program; another id says that the program asks for another run."""
    spec = resolve(
        row["method"],
        row["dataset"],
        memory=int(row["memory"]),
        seed=int(row["seed"]),
        config=row["config"],
        protocol=row["protocol"],
    )
    if spec.run_id != row["run_id"]:
        raise SystemExit(f"{spec.label}: its id is now {spec.run_id[:12]}, stored is {row['run_id'][:12]}")
    return spec


def again(row: dict[str, Any], cell: pd.DataFrame, *, loose: bool = False) -> Check:
    """Run a stored run again; `cell` holds it and its other seeds."""
    spec = stored_spec(row)
    torch.set_num_threads(int(row["threads"]))
    console = Console(stderr=True)
    console.print(f"{spec.label}: took {duration(row['wall_seconds'])} when it was stored", highlight=False)
    bar = Bar(console, quiet=False)
    with bar.shown():
        data = load(spec.dataset, reduction=spec.protocol.reduction)
        matrix = run(spec, data, on_progress=bar.update).matrix
    stored, here = row["versions"], versions()
    same = all(stored.get(k) == here[k] for k in ("torch", "processor")) and torch.get_num_threads() == row["threads"]
    return Check(
        label=spec.label,
        same_setup=same and not loose,
        identical=bool(np.array_equal(matrix, row["matrix"], equal_nan=True)),
        moved=float(np.nanmean(matrix[-1]) - row["average_accuracy"]),
        spread=FAR * float(cell["average_accuracy"].std()),
        far=distance(matrix, row["matrix"], np.stack(list(cell["matrix"]))),
    )


def distance(matrix: Array, stored: Array, seeds: Array) -> float:
    """Of two matrices, by the standard deviation of each entry over the seeds (n, T, T), root mean square.

    >>> seeds = np.array([[[0.4]], [[0.5]], [[0.6]]])
    >>> round(distance(np.array([[0.7]]), np.array([[0.5]]), seeds), 6)
    2.0
    """
    there = ~np.isnan(stored)
    spread = np.maximum(seeds.std(axis=0, ddof=1)[there], 0.01)  # entries that are alike in all seeds: a point
    return float(np.sqrt(np.mean(((matrix - stored)[there] / spread) ** 2)))


def chosen(runs: pd.DataFrame, methods: tuple[str, ...], seed: int) -> list[tuple[dict[str, Any], pd.DataFrame]]:
    """The plain run of each method with that seed, and its cell: those of the method's newest version."""
    found = []
    for method in methods:
        cell = runs[(runs["method"] == method) & (runs["variant"] == "")]
        cell = cell[cell["method_version"] == cell["method_version"].max()]
        rows = cell[cell["seed"] == seed].to_dict("records")
        if not rows:
            raise SystemExit(f"the store has no run of {method} with seed {seed}")
        found.append(({str(k): v for k, v in rows[0].items()}, cell))
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", default="results/proxy")
    parser.add_argument("--dataset", default="cifar10")
    parser.add_argument("--methods", default=",".join(CELLS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--loose", action="store_true", help="judge by the spread in any case")
    asked = parser.parse_args(argv)
    runs = load_runs(asked.results)
    runs = runs[runs["dataset"] == asked.dataset]
    failed = False
    for row, cell in chosen(runs, tuple(asked.methods.split(",")), asked.seed):
        check = again(row, cell, loose=asked.loose)
        failed |= check.verdict == "differs"
        told = f" (accuracy {100 * check.moved:+.2f}, spread {100 * check.spread:.2f}; matrix {check.far:.1f} sd)"
        told = "" if check.identical else told
        print(f"{check.label}: {check.verdict}{told}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
