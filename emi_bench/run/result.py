"""What a run leaves behind. Needs no torch: the store reads and writes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from emi_bench.run.spec import RunSpec


@dataclass(frozen=True)
class FeatureTable:
    """L2-normalised features, a row an image."""

    split: np.ndarray  #: "test" or "train"
    label: np.ndarray
    task: np.ndarray  #: 1-based
    features: np.ndarray  #: (n,D) float32


#: Columns of accuracy while the stream runs: one row for every task begun at every point.
CURVE = ("step", "samples", "task", "of_task", "accuracy", "n_test", "into")


@dataclass(frozen=True)
class RunResult:
    """All that a run leaves behind."""

    spec: RunSpec
    matrix: np.ndarray  #: (T,T), accuracy on task j after task i, NaN above the diagonal and where not evaluated
    n_test: list[int]
    class_order: list[int]
    data_fingerprint: str
    losses: list[dict[str, float]]  #: mean of every loss term, a dict a phase
    ms_per_batch: float
    peak_memory_bytes: int
    n_params: int
    wall_seconds: float  #: over all sittings
    started: str
    finished: str
    device: str
    threads: int
    features: FeatureTable | None = None
    curve: list[list[Any]] | None = None  #: rows of `CURVE`, where accuracy was measured while the stream ran
    others: dict[str, np.ndarray] = field(default_factory=dict)  #: matrices of the method's other predictions, by name
