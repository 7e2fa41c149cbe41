"""What a driver may ask of whoever runs cells. An executor knows how to run; what to run is the driver's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from emi_bench.data.dataset import DataSet
from emi_bench.sweep.job import Job
from emi_bench.sweep.outcome import Outcome
from emi_bench.sweep.plan import Cell
from emi_bench.sweep.resources import Cluster


class Watch(Protocol):
    """Who is told of every start, progress and end; in the main thread."""

    def started(self, cell: Cell) -> None: ...
    def progressed(self, cell: Cell, phase: int, n_phases: int, accuracy: float | None) -> None: ...
    def ended(self, cell: Cell, outcome: Outcome) -> None: ...
    def note(self, text: str) -> None: ...
    def running(self, cell: Cell | None = None) -> bool: ...
    def tick(self) -> None:
        """To be called often: here a signal takes effect, by an exception."""


class Executor(Protocol):
    """In this order: `cluster`, `start`, `share` for every data set, `run` for every pass, `close`."""

    at_most: int | None  #: runs at a time, whatever there is to run on
    starting: float  #: seconds to a first run, about

    def cluster(self) -> Cluster:
        """What there is to run on. Joins a cluster that is there; starts nothing."""

    def card_bytes(self) -> float:
        """The memory of the smallest card."""

    def start(self, runs: int) -> None:
        """Get ready for so many runs at a time."""

    def share(self, data: DataSet) -> Any:
        """The data set as `Job.data` carries it to a run."""

    def run(self, job: Job, cells: Sequence[Cell], watch: Watch) -> None:
        """Run cells until each has ended or could not be begun; the driver asks the store which."""

    def close(self) -> None:
        """Leave nothing behind."""
