"""`emi-bench status` and `emi-bench failures`: what the store says. Needs neither methods nor data."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from emi_bench.errors import UserError
from emi_bench.store import Store
from emi_bench.store.failures import Failures
from emi_bench.store.leases import Claim, Claims, holder
from emi_bench.terminal import duration, say


def existing(results: str) -> Store:
    """A store that is there."""
    store = Store(results)
    if not store.files.remote and not Path(store.files.base).is_dir():
        raise UserError(f"there are no results at {store.files.uri}", hint="say where they are with --results DIR")
    return store


def show_store(console: Console, results: str) -> None:
    """What a store holds, what is running, what has failed."""
    store = existing(results)
    failures = Failures(store.files).all()
    done, claims = store.results(), Claims(store.files).live()
    by_folder: dict[str, int] = {}
    for path in done.values():
        by_folder[path.rpartition("/")[0]] = by_folder.get(path.rpartition("/")[0], 0) + 1
    for folder, n in sorted(by_folder.items()):
        dataset, _, method = folder.partition("/")
        say(console, f"{dataset:14} {method:10} {n}")
    say(console, f"{len(done)} done, {len(claims)} running, {len(failures)} failed")
    show_running(console, list(claims.values()))


def show_running(console: Console, claims: list[Claim]) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    for claim in sorted(claims, key=lambda c: c.label):
        at = f"task {min(claim.phase + 1, claim.n_phases)}/{claim.n_phases}" if claim.n_phases else "started"
        accuracy = "" if claim.accuracy is None else f"{100 * claim.accuracy:.1f} %"
        table.add_row(f"  {claim.label}", at, accuracy, duration(time.time() - claim.started), holder(claim))
    if claims:
        console.print(table, highlight=False)


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
