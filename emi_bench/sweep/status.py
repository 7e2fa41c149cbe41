"""`emi-bench plan` and `emi-bench status`: what there is to do, and what the store says of it."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from emi_bench.errors import UserError
from emi_bench.store import Store
from emi_bench.store.failures import Failure, Failures
from emi_bench.store.leases import Claim, Claims, holder
from emi_bench.sweep.cost import Costs
from emi_bench.sweep.invoke import Asked, failures_command, local_requests, planned
from emi_bench.sweep.packing import Request, check_feasible, slots
from emi_bench.sweep.plan import Cell, Plan, count
from emi_bench.sweep.progress import duration
from emi_bench.terminal import say


def show_plan(console: Console, asked: Asked) -> None:
    """Counts per method and data set, cost, finish time at the present packing."""
    store = Store(asked.results)
    sweep, plan = planned(asked, store)
    costs = Costs(store, plan.cells, plan.results)
    requests, here = local_requests(plan.todo, costs)
    title = f"{sweep.name}: {sweep.title}" if sweep.title else sweep.name
    console.print(title, style="bold", highlight=False, markup=False)
    console.print(_matrix(plan, costs, requests))
    again = f", {plan.repeated} named twice and run once" if plan.repeated else ""
    held = f", {len(plan.held)} held by another sweep" if plan.held else ""
    say(console, f"{len(plan.cells)} runs{again}: {len(plan.done)} done{held}, {len(plan.todo)} to run")
    if not plan.todo:
        return
    cpu = [costs.of(c, False) for c in plan.todo if requests[c.run_id].gpu == 0]
    gpu = [(costs.of(c, True), requests[c.run_id].gpu) for c in plan.todo if requests[c.run_id].gpu > 0]
    total = sum(e.seconds for e in cpu) + sum(e.seconds for e, _ in gpu)
    longest = max([e.seconds for e in cpu] + [e.seconds for e, _ in gpu])
    estimates = [e.measured for e in cpu] + [e.measured for e, _ in gpu]
    how = "measured" if all(estimates) else "estimate" if not any(estimates) else f"{sum(estimates)} of them measured"
    if gpu:
        say(console, f"about {sum(e.seconds * share for e, share in gpu) / 3600:.1f} GPU hours ({how})")
    if cpu:
        as_gpu = sum(costs.of(c, True).seconds for c in plan.todo if requests[c.run_id].gpu == 0)
        beside = f"; on a card of the paper's speed {as_gpu / 3600:.1f} GPU hours" if as_gpu > 3600 else ""
        say(console, f"about {sum(e.seconds for e in cpu) / 3600:.1f} CPU hours ({how}){beside}")
    try:
        check_feasible(requests, here)
    except UserError as e:
        say(console, f"not on this machine: {e.message}\n  {e.hint}")
        return
    at_once = slots(requests, here, None)
    finish = max(total / at_once, longest)
    when = time.strftime("%a %H:%M" if finish < 6 * 86400 else "%Y-%m-%d", time.localtime(time.time() + finish))
    say(console, f"on this machine, {at_once} at a time: {duration(finish)}, until {when}")


def _matrix(plan: Plan, costs: Costs, requests: dict[str, Request]) -> Table:
    """Methods by data sets: done/all, and the hours to come."""
    every, done = count(plan.cells), count(plan.done)
    datasets = list(dict.fromkeys(d for _, d in every))
    hours: dict[str, float] = {}
    for cell in plan.todo:
        seconds = costs.of(cell, requests[cell.run_id].gpu > 0).seconds
        hours[cell.spec.method] = hours.get(cell.spec.method, 0.0) + seconds / 3600
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("done/runs")
    for name in [*datasets, "hours to run"]:
        table.add_column(name, justify="right")
    for method in dict.fromkeys(m for m, _ in every):
        row = [f"{done[method, d]}/{every[method, d]}" if every[method, d] else "" for d in datasets]
        table.add_row(method, *row, f"{hours[method]:.2f}" if method in hours else "")
    return table


def show_status(console: Console, asked: Asked | None, results: str) -> None:
    """How far a sweep (or the whole store) is, from the store alone."""
    store = Store(results)
    if not store.files.remote and not Path(store.files.base).is_dir():
        raise UserError(f"there are no results at {store.files.uri}", hint="say where they are with --results DIR")
    failures = Failures(store.files).all()
    if asked is None:
        done, claims = store.results(), Claims(store.files).live()
        by_folder: dict[str, int] = {}
        for path in done.values():
            by_folder[path.rpartition("/")[0]] = by_folder.get(path.rpartition("/")[0], 0) + 1
        for folder, n in sorted(by_folder.items()):
            dataset, _, method = folder.partition("/")
            say(console, f"{dataset:14} {method:10} {n}")
        say(console, f"{len(done)} done, {len(claims)} running, {len(failures)} failed")
        _running(console, list(claims.values()))
        return
    sweep, plan = planned(asked, store)
    failed = [c for c in plan.todo if c.run_id in failures]
    costs = Costs(store, plan.cells, plan.results)
    requests, _ = local_requests(plan.todo, costs)
    console.print(_matrix(plan, costs, requests))
    say(
        console,
        f"{sweep.name}: {len(plan.done)}/{len(plan.cells)} done, {len(plan.held)} running, "
        f"{len(failed)} failed, {len(plan.todo) - len(failed)} waiting",
    )
    _running(console, [claim for _, claim in plan.held])
    _failed(console, failed, failures, results)
    if plan.todo and not plan.held:
        say(console, f"no sweep is at work here. Go on with: {asked.again()}")
    elif not plan.todo and not plan.held:
        say(console, f"the report: {asked.again('report')}")


def _running(console: Console, claims: list[Claim]) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    for claim in sorted(claims, key=lambda c: c.label):
        at = f"task {min(claim.phase + 1, claim.n_phases)}/{claim.n_phases}" if claim.n_phases else "started"
        accuracy = "" if claim.accuracy is None else f"{100 * claim.accuracy:.1f} %"
        table.add_row(f"  {claim.label}", at, accuracy, duration(time.time() - claim.started), holder(claim))
    if claims:
        console.print(table, highlight=False)


def _failed(console: Console, cells: list[Cell], failures: dict[str, Failure], results: str) -> None:
    for cell in cells:
        say(console, f"  FAILED {cell.spec.label}: {failures[cell.run_id].error}")
    if cells:
        say(console, f"  tracebacks: {failures_command(results)}")


def show_failures(console: Console, results: str, brief: bool) -> None:
    """Every recorded failure: why, since when, how to repeat it."""
    found = Failures(Store(results).files).all()
    for failure in sorted(found.values(), key=lambda f: f.when):
        times = f", {failure.count} times in a row" if failure.count > 1 else ""
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(failure.when))
        console.print(failure.label, style="bold", highlight=False, markup=False)
        say(console, f"  {failure.error}\n  {when} on {failure.host}{times}\n  again: {failure.command}")
        if not brief:
            say(console, "".join(f"  | {line}\n" for line in failure.traceback.rstrip().splitlines()))
    say(console, f"{len(found)} failed" if found else "no run has failed")
