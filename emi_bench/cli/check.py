"""The command `check`: the battery of `emi_bench.testing` over a method, for people or for CI."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from emi_bench.errors import UserError

if TYPE_CHECKING:
    from emi_bench.testing import CheckResult


def check(
    target: Annotated[str, typer.Argument(metavar="FILE", help="A Python file with your method, or a method's name.")],
    as_json: Annotated[bool, typer.Option("--json", help="One object a method, with every check.")] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Also print the tracebacks behind failures.")] = False,
    time_limit: Annotated[float, typer.Option(min=1, help="Seconds that one check may take.")] = 60.0,
) -> None:
    """Does a method keep what every method promises? Says what fails, why, and in which line. Takes a minute.

    Nothing is stored. The exit code is 1 where something fails.

    [bold]Example[/bold]  emi-bench check my_method.py
    """
    import torch

    from emi_bench.testing import CHECKS, Check, examine, examine_file

    torch.set_num_threads(1)
    console = Console(stderr=as_json)
    with console.status("importing ...") as status:

        def tell(check: Check) -> None:
            status.update(f"{CHECKS.index(check) + 1}/{len(CHECKS)}  {check.sentence}")

        if target.endswith(".py") or "/" in target:
            if not Path(target).is_file():
                raise UserError(f"no file {target}", hint="`emi-bench new method NAME` writes one to start from")
            found = examine_file(Path(target), time_limit=time_limit, on_check=tell)
        else:
            found = {target: examine(target, time_limit=time_limit, on_check=tell)}
    if as_json:
        typer.echo(json.dumps([_row(name, target, results) for name, results in found.items()], indent=2))
    else:
        for name, results in found.items():
            show(console, name or target, results, trace)
    if any(o.status == "failed" for results in found.values() for o in results):
        raise typer.Exit(1)


def _row(name: str, target: str, results: list[CheckResult]) -> dict[str, object]:
    sound = all(o.status != "failed" for o in results)
    return {"method": name, "target": target, "ok": sound, "checks": [asdict(o) for o in results]}


def show(console: Console, name: str, results: list[CheckResult], trace: bool) -> None:
    """A line a check; what failed is said with its place."""
    console.print(f"[bold]{name}[/bold]", highlight=False)
    marks = {"ok": "[green]ok[/green]     ", "failed": "[red]FAILED[/red] ", "not run": "[dim]not run[/dim]"}
    for o in results:
        told = o.sentence if o.status == "ok" else o.message
        console.print(f"  {marks[o.status]}  {o.check:<13}", end="", highlight=False)
        console.print(f"{o.where}: {told}" if o.where else told, highlight=False, markup=False, soft_wrap=True)
        if trace and o.trace:
            console.print(o.trace, highlight=False, markup=False, soft_wrap=True)
    failed = sum(o.status == "failed" for o in results)
    held = sum(o.status == "ok" for o in results)
    seconds = sum(o.seconds for o in results)
    verdict = f"{failed} failed" if failed else "nothing failed"
    console.print(f"{held} of {len(results)} checks hold, {verdict} ({seconds:.0f} s)", highlight=False)
