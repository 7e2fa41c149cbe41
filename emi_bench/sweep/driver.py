"""`emi-bench sweep`: plan, check, run, sum up. What is done, held or left is asked of the store, every time."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from emi_bench.data import load
from emi_bench.data.catalogue import get_source
from emi_bench.data.own import find_own, is_own
from emi_bench.data.places import data_root
from emi_bench.store import Store
from emi_bench.store.failures import Failures
from emi_bench.store.leftovers import tidy
from emi_bench.store.patient import PatientStore
from emi_bench.sweep.asked import Asked
from emi_bench.sweep.cell import repeating
from emi_bench.sweep.cost import Costs
from emi_bench.sweep.executors.choice import make_executor
from emi_bench.sweep.executors.protocol import Executor
from emi_bench.sweep.grammar import Sweep
from emi_bench.sweep.job import Job
from emi_bench.sweep.live import make_display
from emi_bench.sweep.outcome import Outcome
from emi_bench.sweep.plan import Cell, Plan, make_plan, planned, turns
from emi_bench.sweep.progress import Display
from emi_bench.sweep.resources import Cluster, Request, check_feasible, settle, slots, warnings_of
from emi_bench.terminal import duration, say

TOLD = 10  # failures, at the end


class Interrupted(KeyboardInterrupt):
    """SIGINT or SIGTERM."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class FailedFast(Exception):
    """A run failed and the user asked to stop then."""


class WorkerLost(Exception):
    """The process of a run went away again and again."""


def run_sweep(console: Console, asked: Asked) -> int:
    """The whole invocation; its exit code is 1 where runs failed, 130 or 143 where it was stopped."""
    executor = make_executor(asked)
    looked_at = Store(asked.results)
    sweep, plan = planned(asked, looked_at)
    tidy(looked_at)
    to_run = plan.todo + [cell for cell, _ in plan.held]
    say(console, f"{sweep.name}: {len(plan.cells)} runs, {len(plan.done)} done, {len(to_run)} to run")
    if not to_run:
        say(console, f"nothing to do. The report: {asked.told('report')}")
        return 0
    missing_data(to_run, asked.data_root)
    costs = Costs(looked_at, plan.cells, plan.results, asked.data_root)
    store = PatientStore(asked.results, asked.patience)
    code = 0
    display: Display | None = None
    try:
        with contextlib.closing(executor):
            cluster = executor.cluster()
            requests = _requests(console, to_run, costs, cluster, executor, asked)
            _open(store)
            seconds = {c.run_id: costs.of(c, requests[c.run_id].gpu > 0).seconds for c in to_run}
            live = asked.executor != "inline"  # a breakpoint wants the terminal for itself
            shown = display = make_display(console, plan, seconds, live=live)
            display.slots = slots(requests.values(), cluster, executor.at_most or asked.max_concurrent)
            display.measured = all(costs.of(c, requests[c.run_id].gpu > 0).measured for c in to_run)
            display.starting = executor.starting
            store.files.on_wait = lambda why: shown.note(f"waiting for the results: {why}")
            say(console, f"on {cluster}: {display.slots} at a time, about {display.eta()}")
            executor.start(min(len(to_run), display.slots))
            keys = dict.fromkeys(c.spec.data_key for c in to_run)
            data = {key: executor.share(load(key[0], asked.data_root, reduction=key[1])) for key in keys}
            with display:
                Driver(asked, sweep, store, executor, requests, data, display).run(plan, seconds)
    except FailedFast as e:
        say(console, f"stopped at the first failure ({e}), as asked")
    except Interrupted as e:
        code = 128 + e.number
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    finally:
        _give_back(store, asked.owner)
    if display is not None and display.shown:
        summary(console, asked, display, stopped=code != 0)
    elif code:
        say(console, f"stopped before the first run. Go on with: {asked.again()}")
    return code or int(display is not None and bool(display.failures))


class Driver:
    """Passes over what is left, until everything is done or has failed; also who watches the executor."""

    def __init__(
        self,
        asked: Asked,
        sweep: Sweep,
        store: PatientStore,
        executor: Executor,
        requests: dict[str, Request],
        data: dict[Any, Any],
        display: Display,
    ) -> None:
        self.asked, self.sweep, self.store, self.executor = asked, sweep, store, executor
        self.requests, self.data, self.display = requests, data, display
        self.started, self.progressed, self.note = display.started, display.progressed, display.note
        paths = [*sweep.plugin_paths(asked.file), *(p.resolve() for p in asked.plugins)]
        self.plugins = {str(path): path.read_bytes() for path in paths}
        self.outcomes: dict[str, Outcome] = {}
        self.signal: int | None = None

    def run(self, plan: Plan, seconds: dict[str, float]) -> None:
        """Run what is to do, longest first, and wait for what others hold."""
        turn = turns(plan.cells, self.asked.shard)
        todo, held = sorted(plan.todo, key=lambda c: (turn[c.run_id], -seconds[c.run_id])), plan.held
        left = {c.run_id: c for c in [*todo, *(c for c, _ in held)]}
        with self._signals():
            while left:
                if todo:
                    self.executor.run(self.job(todo), todo, self)
                    self._settle(left)
                elif held and self.asked.shard is not None:
                    self.note(f"{len(held)} runs are held by others; this shard has nothing left to begin")
                    return
                elif held:
                    self.display.waiting(held)
                    self._sleep(min(2.0, self.asked.claim_seconds / 4))
                now = make_plan(list(left.values()), self.store, owner=self.asked.owner)
                todo, held = now.todo, now.held
                for cell in now.done:
                    del left[cell.run_id]
                    self.display.found(cell)

    def job(self, cells: list[Cell]) -> Job:
        """What the executor is told of a pass."""
        return Job(
            asked=self.asked,
            sweep=self.sweep.name,
            results=self.store.files.uri,
            plugins=self.plugins,
            fresh_process=self.sweep.fresh_process,
            cells={c.run_id: c.spec.model_dump_json() for c in cells},
            requests={c.run_id: self.requests[c.run_id] for c in cells},
            data=self.data,
        )

    def _settle(self, left: dict[str, Cell]) -> None:
        """Drop what has ended; a run that shared a card and ran out of memory gets one to itself."""
        for run_id in list(left):
            outcome = self.outcomes.get(run_id)
            if outcome is None or outcome.state == "held":
                continue
            if outcome.state == "out_of_memory":
                self.requests[run_id] = self.requests[run_id].alone()
                self.note(f"{left[run_id].spec.label} ran out of memory on a shared card: it gets one to itself")
                del self.outcomes[run_id]
                continue
            del left[run_id]

    # --- what an executor tells ------------------------------------------------------------------------------------

    def ended(self, cell: Cell, outcome: Outcome) -> None:
        if outcome.state == "lost" and self.store.done(cell.spec):
            outcome = Outcome("present")  # it died after its work was done
        if outcome.state == "lost":  # nobody else is left to write it down
            again = repeating(cell.spec, self.store, self.requests[cell.run_id], self.asked.data_root)
            outcome = replace(outcome, command=again)
            with contextlib.suppress(OSError):
                why, trace = WorkerLost(outcome.error), outcome.trace or outcome.error
                Failures(self.store.files).record(cell.spec, why, trace, self.sweep.name, again)
        self.outcomes[cell.run_id] = outcome
        self.display.ended(cell, outcome)

    def running(self, cell: Cell | None = None) -> bool:
        return cell.run_id in self.display.running if cell is not None else bool(self.display.running)

    def tick(self) -> None:
        """Often, in the main thread: the place where a signal and `--fail-fast` take effect.

        What is raised while Tune looks at a result would come out wrapped, as an error of Tune's.
        """
        if self.signal is not None:
            self.note("stopping: workers are told to leave; finished tasks are kept (again: at once)")
            raise Interrupted(self.signal)
        if self.asked.fail_fast and self.display.failures:
            raise FailedFast(self.display.failures[0][0].spec.label)

    # --- signals ---------------------------------------------------------------------------------------------------

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


def _requests(
    console: Console, cells: list[Cell], costs: Costs, cluster: Cluster, executor: Executor, asked: Asked
) -> dict[str, Request]:
    """What the runs ask of a cluster; what it can never give is refused."""
    requests = settle(cells, costs, cluster, executor.card_bytes)
    if asked.time is not None:
        requests = {run_id: replace(request, time=asked.time) for run_id, request in requests.items()}
    for warning in warnings_of(requests.values()):
        say(console, f"warning: {warning}")
    if not asked.autoscaling:
        check_feasible(requests, cluster)
    return requests


def summary(console: Console, asked: Asked, display: Display, stopped: bool) -> None:
    """The end, for people: counts, failures, what to type next."""
    elapsed = time.monotonic() - display.began
    computed = display.ended_now["done"]
    say(
        console,
        f"{display.n_done}/{display.n_cells} done, {computed} of them now in {duration(elapsed)}"
        + (f" (slots {100 * display.utilisation():.0f} % busy)" if computed and not stopped else ""),
    )
    for cell, outcome in display.failures[:TOLD]:
        say(console, f"FAILED {cell.spec.label}: {outcome.error}\n  again: {outcome.command}")
    if display.failures:
        more = f"{len(display.failures) - TOLD} more failed; all, and " * (len(display.failures) > TOLD)
        say(console, f"{more}tracebacks: {asked.failures()}")
    if stopped:
        say(console, f"stopped; finished tasks are kept. Go on with: {asked.again()}")
    elif display.n_done == display.n_cells:
        say(console, f"the report: {asked.told('report')}")
    elif not display.failures:
        say(console, f"how far the others are: {asked.told('status')}")
    else:
        say(console, f"failed runs are tried again by: {asked.again()}")


def missing_data(cells: list[Cell], root: Path | None) -> None:
    """Absent data is said before anything starts."""
    for name in dict.fromkeys(c.spec.source or c.spec.dataset for c in cells):
        if is_own(name):
            find_own(name)
        elif get_source(name).find(data_root(root)) is None:
            load(name, root)  # raises, with every place looked at and the ways to get it


def _open(store: PatientStore) -> None:
    try:
        store.files.mark()
    except OSError as e:
        raise store.files.unwritable(e) from e
    store.files.check_writable()


def _give_back(store: PatientStore, owner: str) -> None:
    """Free the claims of a sweep whose workers are gone, so that the next one need not wait for them to expire. Also
    clears what those that were killed left."""
    with contextlib.suppress(OSError):
        brief = PatientStore(store.files.uri, patience=2.0)
        brief.claims.release_all(owner)
        tidy(brief)
