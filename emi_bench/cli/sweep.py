"""The commands `sweep`, `plan`, `status`, `failures`. Ray is imported only when runs start."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperCommand

from emi_bench.cli.options import DataRoot, Plugin, Results, SweepFile, load_plugins, sweep_file
from emi_bench.errors import UserError
from emi_bench.store.defaults import PATIENCE, TTL

Only = Annotated[
    list[str] | None,
    typer.Option(
        help="Only these cells: method=emi|er,dataset=cifar10 (also variant, memory, seed).", metavar="KEY=VALUE"
    ),
]
Seeds = Annotated[str | None, typer.Option(help="Only these seeds: 0-2 or 0,3.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first N cells.")]

WORDS = "emi_bench.words"
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


class AsTyped(TyperCommand):
    """A command that remembers its words: to go on is to type them again. Where it runs Ray it is watched over, if its
    context has somebody for that (`guardian.guarded`); a sweep in its own process may want the terminal."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[WORDS] = tuple(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        from emi_bench.sweep.asked import cluster_of, typed

        if ctx.obj is None or ctx.params["dry_run"] or ctx.params["executor"] == "inline":
            return super().invoke(ctx)
        again = typed("sweep", *ctx.meta[WORDS])
        return ctx.obj(partial(super().invoke, ctx), again, local=cluster_of(ctx.params["address"]) is None)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(cls=AsTyped, help=SWEEP_HELP.replace("\n\n    ", "\n\n\b\n    "))(sweep)
    app.command()(plan)
    app.command()(status)
    app.command()(failures)
    app.command()(logs)


def sweep(
    context: typer.Context,
    file: SweepFile,
    results: Results = "results",
    data_root: DataRoot = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and leave.")] = False,
    only: Only = None,
    seeds: Seeds = None,
    limit: Limit = None,
    max_concurrent: Annotated[int | None, typer.Option(min=1, help="At most N runs at a time.")] = None,
    executor: Annotated[
        str, typer.Option(help="ray, or inline: one run at a time in this process, where breakpoints work.")
    ] = "ray",
    address: Annotated[
        str | None, typer.Option(help="A Ray cluster: auto, or HOST:PORT. Default: $RAY_ADDRESS, else this machine.")
    ] = None,
    autoscaling: Annotated[
        bool, typer.Option("--autoscaling", help="Nodes may come later: do not refuse what none has yet.")
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="N/OF", help="One of several such commands on one store: begins with its share of the runs."
        ),
    ] = None,
    time: Annotated[str | None, typer.Option(help="The longest a run may take: 90s, 30m, 6h, 2d.")] = None,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first run that fails.")] = False,
    log: Annotated[
        str | None, typer.Option(help="Also log to tensorboard, mlflow or wandb, if installed.", metavar="LOGGER")
    ] = None,
    plugin: Plugin = None,
    claim_seconds: Annotated[
        float, typer.Option(min=1, hidden=True, help="After so long without a sign of life a run may be taken over.")
    ] = TTL,
    patience: Annotated[
        float, typer.Option(min=0, hidden=True, help="How long a run waits for a full disk or a vanished store.")
    ] = PATIENCE,
) -> None:
    from emi_bench.run.host_memory import keep_freed_memory
    from emi_bench.sweep.asked import Asked
    from emi_bench.sweep.grammar import parse_time
    from emi_bench.sweep.plan import parse_shard

    asked = Asked(
        file,
        results,
        data_root.absolute() if data_root else None,
        only or [],
        seeds,
        limit,
        load_plugins(plugin),
        executor=executor,
        address=address,
        max_concurrent=max_concurrent,
        autoscaling=autoscaling,
        fail_fast=fail_fast,
        shard=parse_shard(shard) if shard is not None else None,
        time=parse_time("--time", time) if time is not None else None,
        log=log,
        claim_seconds=claim_seconds,
        patience=patience,
        words=context.meta[WORDS],
    )
    if dry_run:
        from emi_bench.sweep.overview import show_plan

        show_plan(Console(), asked)
        return
    from emi_bench.sweep.driver import run_sweep

    if executor == "inline":
        keep_freed_memory()
    raise typer.Exit(run_sweep(Console(), asked))


def plan(
    file: SweepFile,
    results: Results = "results",
    data_root: DataRoot = None,
    only: Only = None,
    seeds: Seeds = None,
    limit: Limit = None,
    plugin: Plugin = None,
) -> None:
    """What a sweep would run: counts per method and data set, cost, finish time. Starts nothing."""
    from emi_bench.sweep.asked import Asked
    from emi_bench.sweep.overview import show_plan

    show_plan(Console(), Asked(file, results, data_root, only or [], seeds, limit, load_plugins(plugin)))


def status(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", parser=sweep_file, help="A sweep file or name; without it, the store."),
    ] = None,
    results: Results = "results",
    data_root: DataRoot = None,
    only: Only = None,
    seeds: Seeds = None,
    plugin: Plugin = None,
) -> None:
    """How far a sweep is, from the store alone: any time, from any machine."""
    if file is None:
        if only or seeds is not None:
            raise UserError(
                "--only and --seeds choose among the cells of a sweep", hint="emi-bench status FILE --only ..."
            )
        from emi_bench.sweep.status import show_store

        show_store(Console(), results)
        return
    from emi_bench.sweep.asked import Asked
    from emi_bench.sweep.overview import show_progress

    show_progress(Console(), Asked(file, results, data_root, only or [], seeds, plugins=load_plugins(plugin)))


def failures(
    run_id: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN_ID]...", help="Only these, by the beginning of their ids.")
    ] = None,
    results: Results = "results",
    brief: Annotated[bool, typer.Option("--brief", help="Without tracebacks and output.")] = False,
    retry: Annotated[
        bool, typer.Option("--retry", help="Run them again, one by one, in processes of their own.")
    ] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Strike them off the record.")] = False,
) -> None:
    """Runs that failed by themselves: why, what they printed last, and the command that repeats each."""
    from emi_bench.sweep.status import forget_failures, retry_failures, show_failures

    chosen = run_id or []
    if retry:
        raise typer.Exit(retry_failures(Console(), results, chosen))
    if forget:
        forget_failures(Console(), results, chosen)
    else:
        show_failures(Console(), results, chosen, brief)


def logs(
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="The beginning of a run's id will do.")],
    results: Results = "results",
) -> None:
    """What a run of a sweep printed, task by task, in all its sittings."""
    from emi_bench.store.files import Files
    from emi_bench.sweep.logs import find_run, read_log

    files = Files(results)
    typer.echo(read_log(files, find_run(files, run_id)), nl=False)
