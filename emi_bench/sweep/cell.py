"""One cell, from claim to result or to a recorded failure. Knows no Ray."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from emi_bench.data.dataset import DataSet
from emi_bench.errors import UserError
from emi_bench.methods import get_method
from emi_bench.run.execute import execute
from emi_bench.run.loop import Progress
from emi_bench.run.spec import RunSpec
from emi_bench.store import Store
from emi_bench.store.defaults import TTL
from emi_bench.store.failures import Failures, one_line
from emi_bench.store.leases import ClaimLost, Lease
from emi_bench.store.patient import PatientFiles, PatientStore
from emi_bench.sweep.logs import RunLog
from emi_bench.sweep.outcome import Outcome
from emi_bench.sweep.resources import Request
from emi_bench.terminal import duration


def run_cell(
    spec: RunSpec,
    store: PatientStore,
    load: Callable[[], DataSet],
    *,
    owner: str,
    prepare: Callable[[], None] = lambda: None,
    request: Request = Request(),
    sweep: str = "",
    ttl: float = TTL,
    data_root: Path | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Outcome:
    """Bring one run into the store, unless it is there or another holds it. Never raises for the run's own errors."""
    began = time.perf_counter()
    log = RunLog(store.files.uri, spec.run_id)
    told = 0  #: tasks in the log

    def record(error: Exception) -> Outcome:
        log.line(f"failed after {duration(time.perf_counter() - began)}: {one_line(error)}")
        log.save()
        return _record(spec, store, error, sweep, repeating(spec, store, request, data_root), began)

    try:
        with Lease(store.files, spec.run_id, owner=owner, label=spec.label, sweep=sweep, ttl=ttl) as lease:
            if not lease.held:
                return Outcome("held")

            def tell(at: Progress) -> None:
                nonlocal told
                lease.tell(at.phase, at.n_phases, at.accuracy)
                if at.phase > told and at.accuracy is not None:
                    log.line(f"task {at.phase}/{at.n_phases} done, accuracy {100 * at.accuracy:.1f} %")
                told = at.phase
                on_progress(at)

            def step() -> None:
                lease.step()
                if request.time is not None and time.perf_counter() - began > request.time:
                    raise _too_long(request.time)

            def start(phase: int) -> None:
                nonlocal told
                told = phase
                after = f" after task {phase}" if phase else ""
                log.begin(f"{spec.label} on {request.where}, {request.threads} threads{after}")

            prepare()  # under the claim, so that what goes wrong is told of a run
            _same_code(spec)
            # Asked again under the claim: who held it before may have finished.
            with log.taking():
                done = execute(
                    spec,
                    store,
                    load,
                    device=request.where,
                    threads=request.threads,
                    on_progress=tell,
                    on_start=start,
                    on_step=step,
                )
                if done.result is not None:
                    log.line(f"done in {duration(time.perf_counter() - began)}")
            Failures(store.files).forget(spec.run_id)
    except ClaimLost:
        return Outcome("held", time.perf_counter() - began)
    except torch.OutOfMemoryError as e:
        if request.shared:  # with a card to itself it is the run's own failure
            return Outcome("out_of_memory", time.perf_counter() - began, error=one_line(e))
        return record(e)
    except Exception as e:  # anything a method may do must not stop the others
        return record(e)
    seconds = time.perf_counter() - began
    if done.result is None:
        return Outcome("present", seconds)
    return Outcome("done", seconds, float(np.nanmean(done.result.matrix[-1])), resumed_from=done.resumed_from)


def _too_long(limit: float) -> UserError:
    return UserError(
        f"the run took longer than {duration(limit)}, its limit",
        hint="finished tasks are kept: it goes on when the sweep is given again; `resources: {time: 6h}` or --time 6h",
    )


def give_up(spec: RunSpec, store: PatientStore, request: Request, sweep: str, data_root: Path | None) -> Outcome:
    """Write down that a run is over its time and does not answer."""
    limit = request.time or 0.0
    error = UserError(f"the run took longer than {duration(limit)}, its limit, and did not answer")
    again = repeating(spec, store, request, data_root)
    return _record(spec, store, error, sweep, again, time.perf_counter() - limit)


def repeating(spec: RunSpec, store: Store, request: Request, data_root: Path | None) -> str:
    """The command that does a run of a sweep alone, in the same places."""
    return spec.command(results=store.files.uri, data_root=data_root, device=request.where, threads=request.threads)


def _same_code(spec: RunSpec) -> None:
    here = get_method(spec.method).version
    if here != spec.method_version:
        raise UserError(
            f"this machine has version {here} of {spec.method}, the sweep was planned with {spec.method_version}",
            hint="install the same emi-bench on all machines of the cluster",
        )


def _record(spec: RunSpec, store: PatientStore, error: Exception, sweep: str, again: str, began: float) -> Outcome:
    """The store may be what failed; then the driver's message is all there is."""
    told = one_line(error)
    try:
        files = PatientFiles(store.files.uri, patience=min(5.0, store.files.patience))
        Failures(files).record(spec, error, traceback.format_exc(), sweep, again)
    except Exception as e:
        told += f" (not recorded: {one_line(e)})"
    return Outcome("failed", time.perf_counter() - began, error=told, command=again)
