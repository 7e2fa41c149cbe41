"""The command `clean`: what a store needs now and then."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from emi_bench.cli.options import Results
from emi_bench.terminal import say


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(clean)


def clean(
    results: Results = "results",
    damaged: Annotated[
        bool, typer.Option("--damaged", help="Read every result, and set aside those that are damaged.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
) -> None:
    """Set damaged results aside, so that the next sweep does their runs again."""
    from emi_bench.store import Store

    console, store = Console(), Store(results)
    found = store.damaged() if damaged else {}
    for path, why in found.items():
        say(console, f"damaged: {path} ({why})")
        if not dry_run:
            store.set_aside(path, why)
    say(console, f"{len(found)} damaged" + (f"; set aside in {store.files.full('_damaged')}" if found else ""))
