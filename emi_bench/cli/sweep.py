"""The commands `sweep`, `plan`, `status`, `failures`. Ray is imported only when runs start."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from emi_bench.cli.options import DataRoot, Plugin, Results, load_plugins

File = Annotated[Path, typer.Argument(metavar="FILE", help="A sweep file; see the example above.")]
Only = Annotated[
    list[str] | None,
    typer.Option(
        help="Only these cells: method=emi|er,dataset=cifar10 (also variant, memory, seed).", metavar="KEY=VALUE"
    ),
]
Seeds = Annotated[str | None, typer.Option(help="Only these seeds: 0-2 or 0,3.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first N cells.")]

SWEEP_HELP = """Run every cell of a sweep that the store does not hold yet, on this machine or on a Ray cluster.

Kill it when you like: the same command goes on where it stopped, and nothing is run twice.

[bold]A sweep file[/bold] (mine.yaml)

    name: mine
    methods:
      - er
      - name: emi
        variants:
          default: {}
          no smi: {smi: false}
    settings:
      - dataset: cifar10
        memory: [200, 500]
    seeds: 3
    resources: {cpu: 1, gpu: 0.2}

[bold]From plan to report[/bold]

    emi-bench plan mine.yaml             18 runs and what they cost
    emi-bench sweep mine.yaml --seeds 0  the first seed of all cells
    emi-bench sweep mine.yaml            the rest
    emi-bench status mine.yaml           also from another machine
    emi-bench failures                   tracebacks, how to repeat each
    emi-bench report mine.yaml
"""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(help=SWEEP_HELP.replace("\n\n    ", "\n\n\b\n    "))(sweep)
    app.command()(plan)
    app.command()(status)
    app.command()(failures)


def sweep(
    file: File,
    results: Results = "results",
    data_root: DataRoot = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and leave.")] = False,
    only: Only = None,
    seeds: Seeds = None,
    limit: Limit = None,
    max_concurrent: Annotated[int | None, typer.Option(min=1, help="At most N runs at a time.")] = None,
    address: Annotated[
        str | None, typer.Option(help="A Ray cluster: auto, or HOST:PORT. Default: $RAY_ADDRESS, else this machine.")
    ] = None,
    autoscaling: Annotated[
        bool, typer.Option("--autoscaling", help="Nodes may come later: do not refuse what none has yet.")
    ] = False,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first run that fails.")] = False,
    log: Annotated[
        str | None, typer.Option(help="Also log to tensorboard, mlflow or wandb, if installed.", metavar="LOGGER")
    ] = None,
    plugin: Plugin = None,
    claim_seconds: Annotated[
        float, typer.Option(min=1, hidden=True, help="After so long without a sign of life a run may be taken over.")
    ] = 60.0,
    patience: Annotated[
        float, typer.Option(min=0, hidden=True, help="How long a run waits for a full disk or a vanished store.")
    ] = 300.0,
) -> None:
    from emi_bench.sweep.invoke import Asked, run_sweep
    from emi_bench.sweep.schedule import Options

    options = Options(
        max_concurrent=max_concurrent,
        fail_fast=fail_fast,
        log=log,
        ttl=claim_seconds,
        patience=patience,
        autoscaling=autoscaling,
        data_root=data_root.absolute() if data_root else None,
    )
    asked = Asked(file, results, data_root, only or [], seeds, limit, load_plugins(plugin), options, address)
    if dry_run:
        from emi_bench.sweep.status import show_plan

        show_plan(Console(), asked)
        return
    if log is not None:
        from emi_bench.sweep.tuning import logger

        logger(log, file.stem)  # said before any work is done
    run_sweep(Console(), asked)


def plan(
    file: File,
    results: Results = "results",
    data_root: DataRoot = None,
    only: Only = None,
    seeds: Seeds = None,
    limit: Limit = None,
    plugin: Plugin = None,
) -> None:
    """What a sweep would run: counts per method and data set, cost, finish time. Starts nothing."""
    from emi_bench.sweep.invoke import Asked
    from emi_bench.sweep.status import show_plan

    show_plan(Console(), Asked(file, results, data_root, only or [], seeds, limit, load_plugins(plugin)))


def status(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="A sweep file; without it, the store.")] = None,
    results: Results = "results",
    data_root: DataRoot = None,
    plugin: Plugin = None,
) -> None:
    """How far a sweep is, from the store alone: any time, from any machine."""
    from emi_bench.sweep.invoke import Asked
    from emi_bench.sweep.status import show_status

    plugins = load_plugins(plugin)
    show_status(Console(), Asked(file, results, data_root, plugins=plugins) if file else None, results)


def failures(
    results: Results = "results",
    brief: Annotated[bool, typer.Option("--brief", help="Without tracebacks.")] = False,
) -> None:
    """Runs that failed by themselves: why, and the command that repeats each."""
    from emi_bench.sweep.status import show_failures

    show_failures(Console(), results, brief)
