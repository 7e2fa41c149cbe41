"""A run as the report sees it: one row of the store's frame, with the variant named by what it changed."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emi_bench.run.spec import stated

#: What `load_runs` must bring for a report to be made.
REQUIRED = (
    "run_id", "method", "variant", "dataset", "n_tasks", "memory", "seed", "batch", "replay_batch", "width",
    "precision", "average_accuracy", "average_incremental_accuracy", "forgetting", "forgetting_raptor", "matrix",
    "config",
)  # fmt: skip
METRIC_COLUMNS = (
    "average_accuracy", "average_incremental_accuracy", "forgetting", "forgetting_raptor", "bwt", "learning_accuracy",
    "ms_per_batch", "peak_memory_bytes", "wall_seconds",
)  # fmt: skip
#: What a reader wants to know about one run, besides its numbers.
FACTS = (
    "device", "n_params", "git_sha", "threads", "started", "finished", "versions", "data_fingerprint", "class_order",
)  # fmt: skip
#: Constants that cannot change a result: a run is the same with and without them.
COSMETIC = frozenset({"checkpoint_joint"})


@dataclass(frozen=True)
class Note:
    """Something the reader must know about the input. `kind` is for tests and styling, `text` for people."""

    kind: str
    text: str


@dataclass(frozen=True, eq=False)
class Run:
    """One finished run. Accuracies in 0-1; `matrix` (T,T) with NaN above the diagonal."""

    run_id: str
    method: str
    variant: str  #: "" for the method's default constants, else a name for what differs
    dataset: str
    n_tasks: int
    memory: int
    seed: int
    protocol: tuple[tuple[str, Any], ...]
    values: dict[str, float]
    matrix: NDArray[np.float64]
    config: dict[str, Any]
    command: str
    schema_version: int
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def joint(self) -> bool:
        """Whether all tasks were learned together: of several rows only the last exists."""
        return len(self.matrix) > 1 and bool(np.isnan(self.matrix[:-1]).all())

    @property
    def source(self) -> str:
        """The data set as it was asked for (npz:PATH), where that is known; else its name."""
        pairs = itertools.pairwise(_words(self.command))
        return next((word for flag, word in pairs if flag == "--dataset"), self.dataset)


@lru_cache(maxsize=8192)
def _words(command: str) -> tuple[str, ...]:
    """A rerun command's words; none of one that is not ours."""
    words = shlex.split(command) if command else []
    return tuple(words) if words[:2] == ["emi-bench", "run"] else ()


def overrides(command: str, prefix: str = "") -> dict[str, str] | None:
    """What a rerun command sets, or None for a command that is not one of ours: the method's constants, or with
    `prefix` "protocol." how the stream is presented.

    >>> overrides("emi-bench run --method emi --seed 0 --set protocol.width=8 --set alpha=0.3")
    {'alpha': '0.3'}
    """
    words = _words(command)
    if not words:
        return None
    pairs = [w.partition("=") for flag, w in itertools.pairwise(words) if flag == "--set"]
    found = {key: value for key, _, value in pairs if key not in COSMETIC}
    if prefix:
        return {k.removeprefix(prefix): v for k, v in found.items() if k.startswith(prefix)}
    return {k: v for k, v in found.items() if "." not in k}


def named_variant(variant: str, command: str) -> str:
    """The variant by what the run did, not by who asked for it: a sweep may name the default config, a user may change
    a constant without a name.

    >>> named_variant("full", "emi-bench run --method emi --seed 0")
    ''
    >>> named_variant("", "emi-bench run --method emi --seed 0 --set lr=0.5")
    'lr=0.5'
    """
    changed = overrides(command)
    if changed is None:
        return variant
    return (variant or ", ".join(f"{k}={v}" for k, v in changed.items())) if changed else ""


def to_run(row: dict[Hashable, Any]) -> Run:
    """One row of a `load_runs` frame."""
    protocol = row.get("protocol")
    if not isinstance(protocol, dict):
        protocol = {k: row[k] for k in ("batch", "replay_batch", "width", "precision")}
    command = row.get("command")
    command = command if isinstance(command, str) else ""
    version = row.get("schema_version", 0)
    values = {c: float(row[c]) if row.get(c) is not None else float("nan") for c in METRIC_COLUMNS}
    losses = row.get("losses")
    if isinstance(losses, list) and losses and not any(losses):
        values["ms_per_batch"] = float("nan")  # its steps only collect (GDumb): their time says nothing of its cost
    return Run(
        run_id=str(row["run_id"]),
        method=str(row["method"]),
        variant=named_variant(str(row["variant"] or ""), command),
        dataset=str(row["dataset"]),
        n_tasks=int(row["n_tasks"]),
        memory=int(row["memory"]),
        seed=int(row["seed"]),
        protocol=tuple(sorted((k, v) for k, v in stated(protocol).items() if k != "n_tasks")),
        values=values,
        matrix=np.asarray(row["matrix"], dtype=np.float64),
        config=dict(row["config"] or {}),
        command=command,
        schema_version=int(version) if version == version else 0,
        facts={k: row[k] for k in FACTS if k in row},
    )


def cell_key(run: Run) -> tuple[Any, ...]:
    """What must be equal for two runs to differ in their seed alone."""
    return (run.method, run.variant, run.dataset, run.n_tasks, run.memory, run.protocol)


def name(run: Run) -> str:
    """For people: `emi[np3] cifar100 M=1000 seed 4`."""
    variant = f"[{run.variant}]" if run.variant else ""
    return f"{run.method}{variant} {run.dataset} M={run.memory} seed {run.seed}"
