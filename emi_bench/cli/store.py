"""The commands `clean` and `release`: what a store needs when processes were killed, or hang."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.console import Console

from emi_bench.cli.options import Results
from emi_bench.errors import UserError
from emi_bench.terminal import say

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]


def clean(
    results: Results = "results",
    damaged: Annotated[
        bool, typer.Option("--damaged", help="Also read every result, and set aside those that are damaged.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Clear what killed processes left: temporary files, dead claims, checkpoints of finished runs. Nothing of a living
    run. A sweep does the same when it starts and when it ends."""
    from emi_bench.store.leftovers import clear, clear_scratch, leftovers, scratch
    from emi_bench.sweep.status import existing

    console, store = Console(), existing(results)
    kept, folders = leftovers(store), scratch()
    for leftover in [*kept, *folders]:
        say(console, f"{leftover.path} ({leftover.why})")
    broken = store.damaged() if damaged else {}
    for path, why in broken.items():
        say(console, f"damaged: {path} ({why})")
    if not dry_run:
        clear(store, kept)
        clear_scratch(folders)
        for path, why in broken.items():
            store.set_aside(path, why)
    told = f"{len(kept) + len(folders)} leftovers" + (f", {len(broken)} damaged" if damaged else "")
    say(console, f"{told}; nothing was touched" if dry_run else f"{told} cleared" if kept or folders else told)


def release(
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="Of the run, or its first digits.")] = "",
    older_than: Annotated[
        str, typer.Option(metavar="TIME", help="All that have been held this long: 90m, 6h, 2d.")
    ] = "",
    results: Results = "results",
    dry_run: DryRun = False,
) -> None:
    """Take runs from processes that hold them and do not advance; another sweep, or the same, may then run them. A
    holder that still lives stops at its next step, with its finished tasks kept."""
    from emi_bench.store.leases import holder
    from emi_bench.sweep.grammar import parse_time
    from emi_bench.sweep.status import existing

    if bool(run_id) == bool(older_than):
        raise UserError("release takes a RUN_ID or --older-than", hint="`emi-bench status` shows who holds what")
    console, claims = Console(), existing(results).claims
    held = claims.live()
    if older_than:
        since = time.time() - parse_time("--older-than", older_than)
        chosen = [c for c in held.values() if c.started < since]
    else:
        chosen = [c for c in held.values() if c.run_id.startswith(run_id)]
        if len(chosen) != 1:
            told = "is held by nobody" if not chosen else f"are the first digits of {len(chosen)} runs"
            known = ", ".join(sorted(f"{c.run_id[:12]} ({c.label})" for c in held.values()))
            raise UserError(f"{run_id} {told}", hint=f"held are {known}" if known else "no run is held at this moment")
    for claim in chosen:
        say(console, f"{claim.label or claim.run_id[:12]}, held by {holder(claim)}")
        if not dry_run:
            claims.revoke(claim.run_id)
    say(console, f"{len(chosen)} {'would be released' if dry_run else 'released'}")
