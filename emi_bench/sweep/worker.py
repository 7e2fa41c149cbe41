"""The Tune trial: one cell. Imported only where Ray is."""

from __future__ import annotations

import gc

gc.disable()  # until all is imported: the collector would walk the million objects of torch and Ray again and again

import ctypes
import os
import queue
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from ray import tune

from emi_bench.data.dataset import DataSet
from emi_bench.data.reduce import Reduction
from emi_bench.errors import UserError
from emi_bench.methods import load_plugin
from emi_bench.run.loop import Progress
from emi_bench.run.spec import RunSpec
from emi_bench.store.patient import PatientStore
from emi_bench.sweep import shared_data
from emi_bench.sweep.attempt import Outcome, attempt
from emi_bench.sweep.packing import Request

gc.freeze()  # and at once unfrozen: now all of it counts as old, and the first collection need not walk it either
gc.unfreeze()
gc.enable()

os.environ.setdefault("RAY_CHDIR_TO_TRIAL_DIR", "0")  # Tune looks here when it makes a trial: relative paths stay right
REPORT_EVERY = 1.0  # seconds: the driver pays for every report


class WorkerSpent(RuntimeError):
    """This process may not be used for another run."""


@dataclass(frozen=True)
class Job:
    """What every worker is told once."""

    sweep: str
    owner: str
    results: str
    ttl: float
    patience: float
    plugins: list[str]
    cells: dict[str, str] = field(repr=False)  #: run_id -> spec as JSON: cheap to ship in thousands
    requests: dict[str, Request] = field(repr=False)  #: by run_id
    data: dict[tuple[str, Reduction], Any] = field(repr=False)  #: data key of a spec -> reference into the object store
    data_root: Path | None = None  #: of the driver, for the command that repeats a run


class CellTrial(tune.Trainable):
    """Runs a cell in a thread; a step of the trial is a task of the run.

    A worker is used again only for methods of this package. They keep nothing outside their own object: every choice
    comes from the run's own `Draws`, weights from a forked generator, threads and determinism are set by each run. A
    plugin's method gets a process of its own (see `Execution`), and so does whatever follows an error of a card.
    """

    def setup(self, config: dict[str, Any], job: Job | None = None) -> None:
        assert job is not None
        gc.freeze()  # what is imported stays: no collection between two runs has to walk it
        self.job = job
        for plugin in job.plugins:
            load_plugin(plugin)
        self._data: dict[tuple[str, Reduction], DataSet] = {}
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
        event = self._events.get()
        while "state" not in event and (rest := self._reported + REPORT_EVERY - time.monotonic()) > 0:
            try:
                event = self._events.get(timeout=rest)
            except queue.Empty:
                break
        self._reported = time.monotonic()
        return event

    def _begin(self, run_id: str) -> None:
        self._events = queue.Queue()
        self._reported = 0.0
        self._clean = False
        spec = RunSpec.model_validate_json(self.job.cells[run_id])
        threading.Thread(target=self._work, args=(spec,), name="run", daemon=True).start()

    def _work(self, spec: RunSpec) -> None:
        try:
            outcome = self._attempt(spec)
        except BaseException as e:  # the trial waits for an event: there must be one
            outcome = Outcome("failed", error=f"{type(e).__name__}: {e}")
        self._clean = outcome.state != "out_of_memory" and "CUDA" not in outcome.error
        self._events.put(asdict(outcome) | {"done": True, "host": os.uname().nodename})

    def _attempt(self, spec: RunSpec) -> Outcome:
        job, request = self.job, self.job.requests[spec.run_id]
        told = -1

        def progress(at: Progress) -> None:
            nonlocal told
            if at.phase != told:
                told = at.phase
                self._events.put({"phase": at.phase, "n_phases": at.n_phases, "accuracy": at.accuracy})

        return attempt(
            spec,
            PatientStore(job.results, job.patience),
            lambda: self._load(spec, request),
            owner=job.owner,
            sweep=job.sweep,
            device=request.where,
            threads=request.threads,
            alone=not request.shared,
            data_root=job.data_root,
            ttl=job.ttl,
            on_progress=progress,
        )

    def _load(self, spec: RunSpec, request: Request) -> DataSet:
        if request.where == "cuda" and not torch.cuda.is_available():
            raise UserError(
                "Ray gave this run a card, but torch sees none",
                hint="install a CUDA build of torch on this machine, or say `resources: {gpu: 0}`",
            )
        key = spec.data_key
        if key not in self._data:
            self._data[key] = shared_data.get(self.job.data[key])
        return self._data[key]


def run_id_of(config: dict[str, Any]) -> str:
    """The key of a trial is `run_id:kind of request`."""
    return str(config["cell"]).partition(":")[0]


def _give_memory_back() -> None:
    """So that the next run's peak is its own: Python's, the C library's and the card's spare memory."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    except (OSError, AttributeError):
        return
