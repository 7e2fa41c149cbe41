"""The command `sweeps`: which sweeps come with the package, and a copy of one to edit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from emi_bench.cli.options import Results
from emi_bench.errors import UserError
from emi_bench.registry import unknown

DAY = 86400.0  #: seconds; what takes a core longer is told as the time of a card of the paper's speed


def sweeps(
    copy: Annotated[str | None, typer.Option(metavar="NAME", help="Write this one here, to edit.")] = None,
    results: Results = "results",
) -> None:
    """The sweeps that come with the package: what they make, how many runs, what they cost."""
    from emi_bench.sweep.grammar import shipped

    if copy is not None:
        write_copy(copy)
        return
    from emi_bench.store import Store
    from emi_bench.sweep.asked import Asked
    from emi_bench.sweep.cost import Costs
    from emi_bench.sweep.plan import planned
    from emi_bench.terminal import duration

    store = Store(results)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "runs", "done", "all of them", "what"):
        table.add_column(column, justify="right" if column in ("runs", "done") else "left", overflow="fold")
    for name, file in shipped().items():
        sweep, plan = planned(Asked(file, results), store)
        costs = Costs(store, plan.cells, plan.results)
        cpu, gpu = (sum(costs.of(cell, card).seconds for cell in plan.cells) for card in (False, True))
        cost = f"{duration(gpu)} on a GPU" if cpu > DAY else f"{duration(cpu)} on a core"
        table.add_row(name, str(len(plan.cells)), str(len(plan.done)), cost, sweep.title)
    Console().print(table)


def write_copy(name: str) -> None:
    """A shipped sweep as a file of the current folder."""
    from emi_bench.sweep.grammar import shipped

    known = shipped()
    if name not in known:
        raise unknown("sweep", name, known)
    target = Path(f"{name}.yaml")
    if target.exists():
        raise UserError(f"{target} is here already", hint="rename it, or go to another folder")
    target.write_bytes(known[name].read_bytes())
    typer.echo(f"wrote {target}; `emi-bench plan {target}` shows what it would run")
