"""`emi-bench sweep`: read, plan, check, execute, sum up."""

from __future__ import annotations

import os
import shlex
import signal
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import typer
from rich.console import Console

from emi_bench.data.own import find_own, is_own
from emi_bench.data.reduce import Reduction
from emi_bench.errors import UserError
from emi_bench.store import Store
from emi_bench.store.patient import PatientStore
from emi_bench.sweep.check import read_sweep
from emi_bench.sweep.cluster import Cluster, connected, is_local
from emi_bench.sweep.cost import Costs
from emi_bench.sweep.grammar import Sweep
from emi_bench.sweep.packing import Request, check_feasible, settle, slots, warnings_of
from emi_bench.sweep.plan import Cell, Plan, expand, make_plan, parse_only, parse_seeds, select
from emi_bench.sweep.progress import Display, duration, make_display
from emi_bench.sweep.schedule import Execution, FailedFast, Interrupted, Options, give_back
from emi_bench.terminal import say


@dataclass(frozen=True)
class Asked:
    """The words of the command: which cells, in which places, how."""

    file: Path
    results: str = "results"
    data_root: Path | None = None
    only: list[str] = field(default_factory=list)
    seeds: str | None = None
    limit: int | None = None
    plugins: list[Path] = field(default_factory=list)
    options: Options = field(default_factory=Options)
    address: str | None = None

    def again(self, command: str = "sweep") -> str:
        """The command that goes on; or another one on the same sweep, with as much of this as it takes."""
        given: dict[str, Any] = {
            "results": self.results if self.results != "results" else None,
            "data-root": self.data_root,
            "plugin": self.plugins,
        }
        if command in ("sweep", "plan"):
            given |= {"only": self.only, "seeds": self.seeds, "limit": self.limit}
        if command == "sweep":
            o, default = self.options, Options()
            given |= {"address": self.address, "max-concurrent": o.max_concurrent, "log": o.log}
            given |= {"autoscaling": o.autoscaling, "fail-fast": o.fail_fast}
            given["claim-seconds"] = o.ttl if o.ttl != default.ttl else None
            given["patience"] = o.patience if o.patience != default.patience else None
        return typed(command, self.file, **given)

    def failures(self) -> str:
        """The command that shows the tracebacks."""
        return failures_command(self.results)


def typed(*words: object, **options: Any) -> str:
    """A command as a user types it; options that are None, False or empty are left out, those of lists repeated.

    >>> typed("sweep", Path("my file.yaml"), only=["a=1", "b=2"], seeds="0-2", limit=None, autoscaling=True)
    "emi-bench sweep 'my file.yaml' --only a=1 --only b=2 --seeds 0-2 --autoscaling"
    """
    told = ["emi-bench", *map(str, words)]
    for name, value in options.items():
        if value is True:
            told.append(f"--{name}")
        elif value is not None and value is not False:
            for one in value if isinstance(value, list) else [value]:
                told += [f"--{name}", str(one)]
    return shlex.join(told)


def failures_command(results: str) -> str:
    """The command that shows the tracebacks of a store."""
    return typed("failures", results=results if results != "results" else None)


def planned(asked: Asked, store: Store) -> tuple[Sweep, Plan]:
    """The sweep of a file and its plan."""
    sweep, source = read_sweep(asked.file, asked.data_root)
    cells, repeated = expand(sweep, source, asked.data_root)
    seeds = parse_seeds(asked.seeds) if asked.seeds is not None else None
    cells = select(cells, parse_only(asked.only), seeds, asked.limit)
    return sweep, make_plan(cells, store, repeated=repeated)


def run_sweep(console: Console, asked: Asked) -> None:
    """The whole invocation; leaves with 1 where runs failed, 130 or 143 where it was stopped."""
    store = PatientStore(asked.results, asked.options.patience)
    _check_place(store, asked.options)
    sweep, plan = planned(asked, store)
    to_run = plan.todo + [cell for cell, _ in plan.held]
    say(console, f"{sweep.name}: {len(plan.cells)} runs, {len(plan.done)} done, {len(to_run)} to run")
    if not to_run:
        say(console, f"nothing to do. The report: {asked.again('report')}")
        return
    missing_data(to_run, asked.data_root)
    costs = Costs(store, to_run, plan.results)
    every_core = False
    if is_local(asked.address) and not asked.options.autoscaling:
        runs = _runs_here(to_run, costs, asked.options)
        # Not where there are cards: a worker had better learn which is its own before it imports torch.
        every_core = runs >= (os.cpu_count() or 1) and not torch.cuda.is_available()
    code = 0
    display: Display | None = None
    try:
        with connected(asked.address, every_core=every_core) as cluster:
            requests = _requests(console, to_run, costs, cluster, asked.options)
            seconds = {c.run_id: costs.of(c, requests[c.run_id].gpu > 0).seconds for c in to_run}
            execution = _execution(console, asked, sweep, plan, store, cluster, requests, seconds)
            display = execution.display
            with display:
                execution.run(sorted(to_run, key=lambda c: -seconds[c.run_id]))
    except FailedFast as e:
        say(console, f"stopped at the first failure ({e}), as asked")
    except Interrupted as e:
        code = 128 + e.number
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    finally:
        give_back(store, asked.options.owner)
    if display is not None:
        summary(console, asked, display, stopped=code != 0)
    elif code:
        say(console, f"stopped before the first run. Go on with: {asked.again()}")
    if code or (display is not None and display.failures):
        raise typer.Exit(code or 1)


def _requests(
    console: Console, cells: list[Cell], costs: Costs, cluster: Cluster, options: Options
) -> dict[str, Request]:
    """What the runs ask of a cluster; what it can never give is refused."""
    requests = settle(cells, costs, cluster, _card_bytes)
    for warning in warnings_of(requests.values()):
        say(console, f"warning: {warning}")
    if not options.autoscaling:
        check_feasible(requests, cluster)
    return requests


def _execution(
    console: Console,
    asked: Asked,
    sweep: Sweep,
    plan: Plan,
    store: PatientStore,
    cluster: Cluster,
    requests: dict[str, Request],
    seconds: dict[str, float],
) -> Execution:
    """All that the runs need, brought to the cluster; and what is shown of them."""
    data = _put_data([c for c in plan.cells if c.run_id in requests], asked.data_root)
    display = make_display(console, plan.cells, plan.done, seconds)
    display.slots = slots(requests, cluster, asked.options.max_concurrent)
    say(console, f"on {cluster}: {display.slots} at a time, about {display.eta()} (estimated)")
    plugins = [*sweep.plugin_paths(asked.file), *(p.resolve() for p in asked.plugins)]
    options = replace(asked.options, reuse=asked.options.reuse and not sweep.fresh_process)
    return Execution(sweep.name, store, cluster, requests, data, plugins, display, options)


def summary(console: Console, asked: Asked, display: Display, stopped: bool) -> None:
    """The end, for people: counts, failures, what to type next."""
    elapsed = time.monotonic() - display.began
    computed = display.ended_now["done"]
    say(
        console,
        f"{display.n_done}/{display.n_cells} done, {computed} of them now in {duration(elapsed)}"
        + (f" (slots {100 * display.utilisation():.0f} % busy)" if computed and not stopped else ""),
    )
    for cell, outcome in display.failures:
        say(console, f"FAILED {cell.spec.label}: {outcome.error}\n  again: {outcome.command}")
    if display.failures:
        say(console, f"tracebacks: {asked.failures()}")
    if stopped:
        say(console, f"stopped; finished tasks are kept. Go on with: {asked.again()}")
    elif display.n_done == display.n_cells:
        say(console, f"the report: {asked.again('report')}")
    else:
        say(console, f"failed runs are tried again by: {asked.again()}")


def missing_data(cells: list[Cell], root: Path | None) -> None:
    """Absent data is said before Ray starts."""
    from emi_bench.data.catalogue import get_source
    from emi_bench.data.places import data_root

    for name in dict.fromkeys(c.spec.source or c.spec.dataset for c in cells):
        if is_own(name):
            find_own(name)
        elif get_source(name).find(data_root(root)) is None:
            from emi_bench.data import load

            load(name, root)  # raises, with every place looked at and the ways to get it


def _runs_here(cells: list[Cell], costs: Costs, options: Options) -> int:
    """How many runs this machine takes at a time; those for a card that torch does not find are refused."""
    requests, here = local_requests(cells, costs)
    check_feasible({run_id: r for run_id, r in requests.items() if r.where == "cuda"}, here)
    return min(len(cells), slots(requests, here, options.max_concurrent))


def _put_data(cells: list[Cell], root: Path | None) -> dict[tuple[str, Reduction], Any]:
    from emi_bench.sweep import shared_data

    return {key: shared_data.put(*key, root) for key in dict.fromkeys(c.spec.data_key for c in cells)}


def _card_bytes() -> float:
    """The memory of the smallest card that answers; asked of one worker with a card."""
    import ray

    @ray.remote(num_gpus=1, num_cpus=0)  # type: ignore[misc, unused-ignore]
    def ask() -> float:
        import torch

        return float(torch.cuda.get_device_properties(0).total_memory) if torch.cuda.is_available() else 0.0

    try:
        answer: float = ray.get(ask.remote(), timeout=60)
    except Exception as e:
        raise UserError(
            f"no card of the cluster tells its memory: {type(e).__name__}",
            hint="say how much it has, `resources: {gpu_memory: 24}`, or give the share, `gpu: 0.2`",
        ) from e
    if not answer:
        raise UserError(
            "the cluster has cards, but torch sees none of them",
            hint="install a CUDA build of torch, or say `resources: {gpu: 0}`",
        )
    return answer


def _check_place(store: PatientStore, options: Options) -> None:
    if options.log == "tensorboard" and store.files.remote:
        raise UserError(
            "tensorboard logs are files beside the results, and these are in a bucket",
            hint="use --log mlflow or --log wandb, or a folder for --results",
        )
    try:
        store.files.mark()
    except OSError as e:
        raise store.files.unwritable(e) from e
    store.files.check_writable()


def local_requests(cells: list[Cell], costs: Costs) -> tuple[dict[str, Request], Cluster]:
    """What a plan assumes without asking Ray: this machine."""
    cards = torch.cuda.device_count()
    here = Cluster(True, [{"CPU": float(os.cpu_count() or 1)} | ({"GPU": float(cards)} if cards else {})])
    size = float(torch.cuda.get_device_properties(0).total_memory) if cards else 0.0
    return settle(cells, costs, here, lambda: size), here
