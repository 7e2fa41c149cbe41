"""`emi-bench plan FILE` and `emi-bench status FILE`: what there is to do, and what the store says of it."""

from __future__ import annotations

import time
from collections import Counter

from rich.console import Console
from rich.table import Table

from emi_bench.errors import UserError
from emi_bench.store import Store
from emi_bench.store.failures import Failures
from emi_bench.sweep.asked import Asked
from emi_bench.sweep.cost import Costs
from emi_bench.sweep.executors.choice import make_executor
from emi_bench.sweep.plan import Plan, planned
from emi_bench.sweep.resources import Request, card_bytes, check_feasible, settle, slots, this_machine
from emi_bench.sweep.status import show_running
from emi_bench.terminal import duration, say


def show_plan(console: Console, asked: Asked) -> None:
    """Counts per method and data set, cost, finish time at the present packing."""
    store = Store(asked.results)
    sweep, plan = planned(asked, store)
    costs = Costs(store, plan.cells, plan.results, asked.data_root)
    here = this_machine()
    requests = settle(plan.todo, costs, here, card_bytes)
    title = f"{sweep.name}: {sweep.title}" if sweep.title else sweep.name
    console.print(title, style="bold", highlight=False, markup=False)
    console.print(_matrix(plan, costs, requests))
    again = f", {plan.repeated} named twice and run once" if plan.repeated else ""
    held = f", {len(plan.held)} held by another sweep" if plan.held else ""
    say(console, f"{len(plan.cells)} runs{again}: {len(plan.done)} done{held}, {len(plan.todo)} to run")
    if not plan.todo:
        return
    shares = [requests[c.run_id].gpu for c in plan.todo]
    each = [costs.of(c, share > 0) for c, share in zip(plan.todo, shares, strict=True)]
    seconds, measured = [e.seconds for e in each], sum(e.measured for e in each)
    how = "measured" if measured == len(each) else f"{measured} of them measured" if measured else "counted"
    if any(shares):
        hours = sum(s * share for s, share in zip(seconds, shares, strict=True)) / 3600
        say(console, f"about {hours:.1f} GPU hours ({how})")
    if cpu := [(c, s) for c, s, share in zip(plan.todo, seconds, shares, strict=True) if not share]:
        as_gpu = sum(costs.of(c, True).seconds for c, _ in cpu)
        beside = f"; on a card of the paper's speed {as_gpu / 3600:.1f} GPU hours" if as_gpu > 3600 else ""
        say(console, f"about {sum(s for _, s in cpu) / 3600:.1f} CPU hours ({how}){beside}")
    try:
        check_feasible(requests, here)
    except UserError as e:
        say(console, f"not on this machine: {e.message}\n  {e.hint}")
        return
    executor = make_executor(asked)
    at_once = slots(requests.values(), here, executor.at_most or asked.max_concurrent)
    finish = executor.starting + max(sum(seconds) / at_once, max(seconds))
    when = time.strftime("%a %H:%M" if finish < 6 * 86400 else "%Y-%m-%d", time.localtime(time.time() + finish))
    say(console, f"on this machine, {at_once} at a time: {duration(finish)} ({how}), until {when}")


def _matrix(plan: Plan, costs: Costs, requests: dict[str, Request]) -> Table:
    """Methods by data sets: done/all, and the hours to come."""
    every, done = (Counter((c.spec.method, c.spec.dataset) for c in cells) for cells in (plan.cells, plan.done))
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


def show_progress(console: Console, asked: Asked) -> None:
    """How far a sweep is, from the store alone."""
    store = Store(asked.results)
    failures = Failures(store.files).all()
    sweep, plan = planned(asked, store)
    failed = [c for c in plan.todo if c.run_id in failures]
    costs = Costs(store, plan.cells, plan.results, asked.data_root)
    requests = settle(plan.todo, costs, this_machine(), card_bytes)
    console.print(_matrix(plan, costs, requests))
    say(
        console,
        f"{sweep.name}: {len(plan.done)}/{len(plan.cells)} done, {len(plan.held)} running, "
        f"{len(failed)} failed, {len(plan.todo) - len(failed)} waiting",
    )
    show_running(console, [claim for _, claim in plan.held])
    for cell in failed:
        say(console, f"  FAILED {cell.spec.label}: {failures[cell.run_id].error}")
    if failed:
        say(console, f"  tracebacks: {asked.failures()}")
    if plan.todo and not plan.held:
        say(console, f"no sweep is at work here. Go on with: {asked.again()}")
    elif not plan.todo and not plan.held:
        say(console, f"the report: {asked.told('report')}")
