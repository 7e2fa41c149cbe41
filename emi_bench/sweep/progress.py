"""What a sweep shows while it runs, and how long it will take: a line an event (on a terminal see `live`)."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from rich.console import Console

from emi_bench.store.leases import Claim, holder
from emi_bench.sweep.outcome import Outcome
from emi_bench.sweep.plan import Cell
from emi_bench.terminal import duration, say

TASKS = 5  # of a run that has not said how many it has


@dataclass
class Running:
    """A run under way."""

    cell: Cell
    began: float
    first: int = 0  #: tasks that were done when it began
    phase: int = -1  #: tasks that are done; -1 before it has said so
    n_phases: int = TASKS
    accuracy: float | None = None

    @property
    def fraction(self) -> float:
        """The share of its work that was done since it began."""
        return max(0, self.phase - self.first) / self.n_phases

    def __str__(self) -> str:
        if self.phase < 0:
            return ""
        told = "" if self.accuracy is None else f"  {100 * self.accuracy:.1f} %"
        return f"task {min(self.phase + 1, self.n_phases)}/{self.n_phases}{told}"


class Display:
    """Plain lines: one for every run that ends, and nothing else."""

    def __init__(self, console: Console, cells: list[Cell], done: int, seconds: dict[str, float]) -> None:
        self.console = console
        self.cells = cells
        self.left = dict(seconds)  #: estimated seconds of each run that is to come
        self.n_cells, self.n_done = len(cells), done
        self.ended_now: Counter[str] = Counter()
        self.failures: list[tuple[Cell, Outcome]] = []
        self.running: dict[str, Running] = {}
        self.busy = 0.0  #: seconds of runs that ended
        self.took = self.predicted = 0.0  #: seconds of those that came to a result, and what they were estimated at
        self.began = time.monotonic()
        self.shown = False  #: whether runs were to begin
        self.slots = 1
        self.measured = False  #: whether the estimates are of runs like these
        self.starting = 0.0  #: seconds until a first run begins
        self._waiting: tuple[str, ...] = ()

    def __enter__(self) -> Display:
        self.began, self.shown = time.monotonic(), True
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    # --- events --------------------------------------------------------------------------------------------------

    def started(self, cell: Cell) -> None:
        self.running[cell.run_id] = Running(cell, time.monotonic())

    def progressed(self, cell: Cell, phase: int, n_phases: int, accuracy: float | None) -> None:
        run = self.running.setdefault(cell.run_id, Running(cell, time.monotonic()))
        run.first = phase if run.phase < 0 else run.first
        run.phase, run.n_phases, run.accuracy = phase, n_phases, accuracy

    def found(self, cell: Cell) -> None:
        """A cell that was in the store when its turn came: another sweep's work, or found again after a loss."""
        if cell.run_id in self.left:
            self._count(cell, "present")

    def ended(self, cell: Cell, outcome: Outcome) -> None:
        self.running.pop(cell.run_id, None)
        if outcome.state in ("held", "out_of_memory"):
            return
        self.busy += outcome.seconds
        if outcome.state == "done":
            self.took += outcome.seconds
            self.predicted += self.left.get(cell.run_id, 0.0)
        self._count(cell, outcome.state)
        if outcome.state in ("failed", "lost"):
            self.failures.append((cell, outcome))
            self.note(f"FAILED {cell.spec.label}: {outcome.error}")
        elif outcome.state == "done":
            self.finished(cell, outcome)

    def _count(self, cell: Cell, state: str) -> None:
        self.left.pop(cell.run_id, None)
        self.ended_now[state] += 1
        self.n_done += state in ("done", "present")

    def finished(self, cell: Cell, outcome: Outcome) -> None:
        accuracy = "" if outcome.accuracy is None else f"{100 * outcome.accuracy:5.1f} %"
        went_on = f", went on after task {outcome.resumed_from}" if outcome.resumed_from else ""
        self.note(
            f"[{self.n_done}/{self.n_cells}] {cell.spec.label}  {accuracy}  {duration(outcome.seconds)}{went_on}"
            f"  (left {self.eta()})"
        )

    def waiting(self, held: list[tuple[Cell, Claim]]) -> None:
        """Told once for every set of holders."""
        names = tuple(sorted({holder(claim) for _, claim in held}))
        if names != self._waiting:
            self._waiting = names
            n = len(held)
            self.note(f"waiting for {n} run{'s' * (n > 1)} held by another sweep ({'; '.join(names)}); Ctrl-C leaves")

    def note(self, text: str) -> None:
        say(self.console, text)

    # --- numbers -------------------------------------------------------------------------------------------------

    def remaining(self) -> float:
        """Seconds to the end, as far as that can be told."""
        correction, now = self.correction(), time.monotonic()
        left = {run_id: seconds * correction for run_id, seconds in self.left.items()}
        for run_id, run in self.running.items():
            if run_id in left:
                left[run_id] = max(0.0, left[run_id] * (1 - run.fraction) - self._silent(run, now))
        waiting = 0.0 if self.running or self.ended_now else max(0.0, self.starting - (now - self.began))
        return waiting + max(sum(left.values()) / self.slots, max(left.values(), default=0.0))

    def correction(self) -> float:
        """How wrong the estimates were: what runs took against what was estimated, tasks of running ones included.

        A run without a finished task is within its first: once that takes longer than estimated, it counts too.
        """
        took, estimated, now = self.took, self.predicted, time.monotonic()
        for run_id, run in self.running.items():
            seconds, elapsed = self.left.get(run_id, 0.0), now - run.began
            if run.fraction:
                took += elapsed - self._silent(run, now)
                estimated += seconds * run.fraction
            elif elapsed > seconds / run.n_phases:
                took += elapsed
                estimated += seconds / run.n_phases
        return took / estimated if took and estimated else 1.0

    def _silent(self, run: Running, now: float) -> float:
        """Seconds since a run last finished a task, if its tasks take the same time each."""
        done = run.phase - run.first
        elapsed = now - run.began
        return elapsed - elapsed * done / (done + 1) if done > 0 else 0.0

    def eta(self) -> str:
        """For people: how long, and how sure that is."""
        return f"{duration(self.remaining())} ({self.sure()})"

    def sure(self) -> str:
        if self.ended_now["done"] or any(run.fraction for run in self.running.values()):
            return "measured here"
        return "measured before" if self.measured else "counted, may be far off"

    def utilisation(self) -> float:
        """Share of the slots' time spent in runs."""
        elapsed = time.monotonic() - self.began
        return min(1.0, self.busy / (self.slots * elapsed)) if elapsed > 0 else 0.0
