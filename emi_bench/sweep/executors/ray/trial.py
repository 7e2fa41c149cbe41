"""The Tune trial: one cell. Imported only where Ray is."""

from __future__ import annotations

import gc

gc.disable()  # until all is imported: the collector would walk the million objects of torch and Ray again and again

import os
import queue
import threading
import time
from dataclasses import asdict
from typing import Any

import torch
from ray import tune

from emi_bench.data.dataset import DataSet
from emi_bench.run.loop import Progress
from emi_bench.sweep.executors.ray import shared_data
from emi_bench.sweep.job import Job
from emi_bench.sweep.outcome import Outcome

gc.freeze()  # and at once unfrozen: now all of it counts as old, and the first collection need not walk it either
gc.unfreeze()
gc.enable()

os.environ.setdefault("RAY_CHDIR_TO_TRIAL_DIR", "0")  # Tune looks here when it makes a trial: relative paths stay right
GRACE = 60.0  # seconds over its time in which a run may end by itself
REPORT_EVERY = 1.0  # seconds: the driver pays for every report


class WorkerSpent(RuntimeError):
    """This process may not be used for another run."""


class CellTrial(tune.Trainable):
    """Runs a cell in a thread; a step of the trial is a task of the run.

    A worker is used again only for methods of this package. They keep nothing outside their own object: every choice
    comes from the run's own `Draws`, weights from a forked generator, threads and determinism are set by each run. A
    plugin's method gets a process of its own (see `RayExecutor`), and so does whatever follows an error of a card.
    """

    def setup(self, config: dict[str, Any], job: Job | None = None) -> None:
        assert job is not None
        gc.freeze()  # what is imported stays: no collection between two runs has to walk it
        self.job = job
        self._data: dict[Any, DataSet] = {}
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        self._reported = 0.0
        self._clean = False
        self._begin(run_id_of(config))

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        if not self._clean:
            raise WorkerSpent("an earlier run left this process in doubt")  # Tune starts the trial in a new one
        _give_memory_back()
        self._begin(run_id_of(new_config))
        return True

    def step(self) -> dict[str, Any]:
        event = self._next()
        while (
            "state" not in event
            and "waits" not in event
            and (rest := self._reported + REPORT_EVERY - time.monotonic()) > 0
        ):
            try:
                event = self._events.get(timeout=rest)
            except queue.Empty:
                break
        self._reported = time.monotonic()
        return event

    def _next(self) -> dict[str, Any]:
        """The next event; a run that is over its time and silent (a hung card, a transfer that never ends) is given up.
        This process is not used again."""
        limit = self.job.requests[self._run_id].time
        try:
            return self._events.get(
                timeout=None if limit is None else max(0.0, self._began + limit + GRACE - time.monotonic())
            )
        except queue.Empty:
            return asdict(self.job.give_up(self._run_id)) | {"done": True, "host": os.uname().nodename}

    def _begin(self, run_id: str) -> None:
        self._run_id, self._began = run_id, time.monotonic()
        self._events = queue.Queue()
        self._reported = 0.0
        self._clean = False
        threading.Thread(target=self._work, args=(run_id,), name="run", daemon=True).start()

    def _work(self, run_id: str) -> None:
        told = -1

        def progress(at: Progress) -> None:
            nonlocal told
            if at.phase != told:
                told = at.phase
                self._events.put({"phase": at.phase, "n_phases": at.n_phases, "accuracy": at.accuracy})

        def wait(why: OSError) -> None:
            self._events.put({"waits": str(why)})

        try:
            outcome = self.job.run(run_id, self._fetch, progress, wait)
        except BaseException as e:  # the trial waits for an event: there must be one
            outcome = Outcome("failed", error=f"{type(e).__name__}: {e}")
        self._clean = outcome.state != "out_of_memory" and "CUDA" not in outcome.error
        self._events.put(asdict(outcome) | {"done": True, "host": os.uname().nodename})

    def _fetch(self, reference: Any) -> DataSet:
        if reference not in self._data:
            self._data[reference] = shared_data.get(reference)
        return self._data[reference]


def run_id_of(config: dict[str, Any]) -> str:
    """The key of a trial is `run_id:kind of request`."""
    return str(config["cell"]).partition(":")[0]


def _give_memory_back() -> None:
    """So that the next run's peak is its own: Python's and the card's spare memory. A run gives back the rest."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
