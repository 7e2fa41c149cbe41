"""Cells -> Ray Tune -> store. Tune executes; what is done, held or left is asked of the store, every time."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from emi_bench.data.reduce import Reduction
from emi_bench.methods import get_method
from emi_bench.store.defaults import PATIENCE, TTL
from emi_bench.store.failures import Failures
from emi_bench.store.leases import Claims
from emi_bench.store.patient import PatientStore
from emi_bench.sweep.attempt import Outcome
from emi_bench.sweep.cluster import Cluster
from emi_bench.sweep.packing import Request, slots
from emi_bench.sweep.plan import Cell, make_plan
from emi_bench.sweep.progress import Display

WORKER_LOSSES = 3  # of one run, before it is given up


class Interrupted(KeyboardInterrupt):
    """SIGINT or SIGTERM."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class FailedFast(Exception):
    """A run failed and the user asked to stop then."""


class WorkerLost(Exception):
    """The process of a run went away again and again."""


@dataclass
class Options:
    """How to execute."""

    max_concurrent: int | None = None
    fail_fast: bool = False
    reuse: bool = True
    log: str | None = None
    ttl: float = TTL
    patience: float = PATIENCE
    autoscaling: bool = False
    data_root: Path | None = None  #: for the commands that repeat runs
    owner: str = field(default_factory=lambda: uuid.uuid4().hex)


class Execution:
    """One invocation: passes over what is left, until everything is done or has failed."""

    def __init__(
        self,
        name: str,
        store: PatientStore,
        cluster: Cluster,
        requests: dict[str, Request],
        data: dict[tuple[str, Reduction], Any],
        plugins: list[Path],
        display: Display,
        options: Options,
    ) -> None:
        self.name, self.store, self.cluster, self.options = name, store, cluster, options
        self.requests, self.data, self.display = requests, data, display
        self.plugins = [str(p) for p in plugins]
        self.outcomes: dict[str, Outcome] = {}
        self.signal: int | None = None

    def run(self, cells: list[Cell]) -> dict[str, Outcome]:
        """Execute `cells` (longest first) and wait for those that others hold."""
        left = {c.run_id: c for c in cells}
        with self._signals():
            while left:
                plan = make_plan(list(left.values()), self.store, owner=self.options.owner)
                for cell in plan.done:
                    del left[cell.run_id]
                    self.display.found(cell)
                if plan.todo:
                    self._passes(plan.todo)
                    self._note(left)
                elif plan.held:
                    self.display.waiting(plan.held)
                    self._sleep(min(2.0, self.options.ttl / 4))
        return self.outcomes

    def _note(self, left: dict[str, Cell]) -> None:
        """Drop what has ended; a run that shared a card and ran out of memory gets one to itself."""
        for run_id in list(left):
            outcome = self.outcomes.get(run_id)
            if outcome is None or outcome.state == "held":
                continue
            if outcome.state == "out_of_memory":
                self.requests[run_id] = self.requests[run_id].alone()
                self.display.note(
                    f"{left[run_id].spec.label} ran out of memory on a shared card: it gets one to itself"
                )
                del self.outcomes[run_id]
                continue
            del left[run_id]

    def _passes(self, cells: list[Cell]) -> None:
        """Methods of this package share workers; a plugin's may keep what it likes in its module, so they do not."""
        from emi_bench.sweep.tuning import fit

        ours = [c for c in cells if get_method(c.spec.method).__module__.startswith("emi_bench.methods.")]
        known = {c.run_id for c in ours}
        others = [c for c in cells if c.run_id not in known]
        for some, reuse in ((ours, self.options.reuse), (others, False)):
            if some:
                fit(self, some, reuse=reuse)

    # --- called from inside Tune's loop --------------------------------------------------------------------------

    def tick(self) -> None:
        """Often, in the main thread: the place where a signal and `--fail-fast` take effect.

        What is raised while Tune looks at a result would come out wrapped, as an error of Tune's.
        """
        if self.signal is not None:
            raise Interrupted(self.signal)
        if self.options.fail_fast and self.display.failures:
            raise FailedFast(self.display.failures[0][0].spec.label)

    def ended(self, cell: Cell, outcome: Outcome) -> None:
        if outcome.state == "lost" and self.store.done(cell.spec):
            outcome = Outcome("present")  # it died after its work was done
        if outcome.state == "lost":  # nobody else is left to write it down
            request, files = self.requests[cell.run_id], self.store.files
            again = cell.spec.command(
                results=files.uri, data_root=self.options.data_root, device=request.where, threads=request.threads
            )
            outcome = replace(outcome, command=again)
            with contextlib.suppress(OSError):
                Failures(files).record(cell.spec, WorkerLost(outcome.error), outcome.error, self.name, again)
        self.outcomes[cell.run_id] = outcome
        self.display.ended(cell, outcome)

    def slots(self) -> int:
        return slots(self.requests, self.cluster, self.options.max_concurrent)

    # --- signals -------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def note(number: int, frame: FrameType | None) -> None:
            if self.signal is not None:  # asked twice: at once
                raise Interrupted(number)
            self.signal = number

        former = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.tick()
            time.sleep(0.1)


def give_back(store: PatientStore, owner: str) -> None:
    """Free the claims of a sweep whose workers are gone, so that the next one need not wait for them to expire."""
    with contextlib.suppress(OSError):
        Claims(PatientStore(store.files.uri, patience=2.0).files).release_all(owner)


@contextlib.contextmanager
def tune_folder(keep: str | None) -> Iterator[str]:
    """Where Tune keeps what nobody reads, unless loggers write there."""
    if keep is not None:
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix=f"emi-tune-{os.getpid()}-", ignore_cleanup_errors=True) as folder:
        yield folder
