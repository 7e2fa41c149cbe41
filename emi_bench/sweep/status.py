"""`emi-bench status` and `emi-bench failures`: what the store says. Needs neither methods nor data."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from emi_bench.errors import UserError
from emi_bench.store import Store
from emi_bench.store.failures import Failure, Failures
from emi_bench.store.leases import Claim, Claims, holder
from emi_bench.sweep.asked import typed
from emi_bench.sweep.logs import read_log
from emi_bench.terminal import duration, say

LAST_LINES = 10  # of the output of a failed run


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
    for folder, n in sorted(Counter(path.rpartition("/")[0] for path in done.values()).items()):
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


def show_failures(console: Console, results: str, chosen: list[str], brief: bool) -> None:
    """Every recorded failure: why, since when, what it printed last, how to repeat it."""
    store = Store(results)
    found = _failures(store, chosen)
    for failure in found:
        times = f", {failure.count} times in a row" if failure.count > 1 else ""
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(failure.when))
        console.print(failure.label, style="bold", highlight=False, markup=False)
        say(console, f"  {failure.error}\n  {when} on {failure.host}{times}\n  again: {failure.command}")
        if brief:
            continue
        say(console, "".join(f"  | {line}\n" for line in failure.traceback.rstrip().splitlines()))
        if last := read_log(store.files, failure.run_id).splitlines()[-LAST_LINES:]:
            say(console, f"  output ({typed('logs', failure.run_id[:12], results=results)} has all):")
            say(console, "".join(f"  > {line}\n" for line in last))
    say(console, f"{len(found)} failed" if found else "no run has failed")


def forget_failures(console: Console, results: str, chosen: list[str]) -> None:
    """Strike failures off the record."""
    store = Store(results)
    found = _failures(store, chosen)
    for failure in found:
        Failures(store.files).forget(failure.run_id)
    say(console, f"{len(found)} forgotten; a sweep tries such runs as if for the first time")


def retry_failures(console: Console, results: str, chosen: list[str]) -> int:
    """Repeat failed runs by their own commands; the exit code says whether all went well."""
    store = Store(results)
    found = _failures(store, chosen)
    failed = 0
    for failure in found:
        words = shlex.split(failure.command)
        if words[:2] != ["emi-bench", "run"]:
            raise UserError(f"the record of {failure.label} has no command of emi-bench", hint="give the sweep again")
        say(console, f"{failure.label}: {failure.command}")
        ended = subprocess.run([sys.executable, "-c", "from emi_bench.cli import main; main()", *words[1:]])
        if ended.returncode == 0:
            Failures(store.files).forget(failure.run_id)
        failed += ended.returncode != 0
    say(console, f"{len(found) - failed} of {len(found)} went well" if found else "no run has failed")
    return int(failed > 0)


def _failures(store: Store, chosen: list[str]) -> list[Failure]:
    """Those whose ids begin as one of `chosen`, or all; the oldest first."""
    found = sorted(Failures(store.files).all().values(), key=lambda f: f.when)
    for start in chosen:
        if not any(f.run_id.startswith(start) for f in found):
            raise UserError(f"no failed run has an id that begins with '{start}'", hint=typed("failures", "--brief"))
    return [f for f in found if not chosen or f.run_id.startswith(tuple(chosen))]
