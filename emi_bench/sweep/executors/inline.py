"""Runs in this process, one at a time: breakpoints work, and nothing but Python is needed."""

from __future__ import annotations

from collections.abc import Sequence

from emi_bench.data.dataset import DataSet
from emi_bench.errors import UserError
from emi_bench.run.loop import Progress
from emi_bench.sweep.asked import Asked
from emi_bench.sweep.executors.protocol import Watch
from emi_bench.sweep.job import Job
from emi_bench.sweep.plan import Cell
from emi_bench.sweep.resources import Cluster, card_bytes, this_machine


class InlineExecutor:
    """This process. A run that is interrupted gives its claim back and keeps its finished tasks, as everywhere."""

    at_most: int | None = 1
    starting = 0.0

    def __init__(self, asked: Asked) -> None:
        for option in ("address", "autoscaling", "max_concurrent", "log"):
            if getattr(asked, option):
                raise UserError(
                    f"--{option.replace('_', '-')} means nothing to the inline executor",
                    hint="leave it out, or take --executor ray",
                )

    def cluster(self) -> Cluster:
        return this_machine()

    def card_bytes(self) -> float:
        return card_bytes()

    def start(self, runs: int) -> None:
        return None

    def share(self, data: DataSet) -> DataSet:
        return data

    def run(self, job: Job, cells: Sequence[Cell], watch: Watch) -> None:
        for cell in cells:
            watch.tick()
            watch.started(cell)
            told = -1

            def progress(at: Progress, cell: Cell = cell) -> None:
                nonlocal told
                watch.tick()
                if at.phase != told:
                    told = at.phase
                    watch.progressed(cell, at.phase, at.n_phases, at.accuracy)

            def wait(why: OSError, cell: Cell = cell) -> None:
                watch.note(f"{cell.spec.label} waits for the results: {why}")

            watch.ended(cell, job.run(cell.run_id, lambda data: data, progress, wait))

    def close(self) -> None:
        return None
