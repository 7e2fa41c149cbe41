"""The command `emi-bench`: one short function a command."""

from __future__ import annotations

import json
import sys
import warnings
from importlib.metadata import version
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from emi_bench.cli import guardian
from emi_bench.cli import report as report_commands
from emi_bench.cli import sweep as sweep_commands
from emi_bench.cli.check import check
from emi_bench.cli.data import data_app
from emi_bench.cli.new import new_app
from emi_bench.cli.options import DataRoot, Plugin, Results, complete_methods, load_plugins
from emi_bench.cli.run import run
from emi_bench.cli.store import clean, release
from emi_bench.cli.sweeps import sweeps
from emi_bench.errors import UserError

app = typer.Typer(
    name="emi-bench",
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Reproduce, extend and trust the results of online class-incremental learning.",
)
app.add_typer(data_app, name="data")
console = Console()


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"emi-bench {version('emi-bench')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Reproduce, extend and trust the results of online class-incremental learning."""


app.command()(run)


@app.command()
def methods(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]",
            help="One method: its constants with their defaults, meaning and source.",
            autocompletion=complete_methods,
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="A list of objects, with every constant.")] = False,
    plugin: Plugin = None,
) -> None:
    """The methods and what they are; with a NAME its constants, their defaults, meaning and source.

    [bold]Example[/bold]  emi-bench methods emi
    """
    from emi_bench.cli.listing import constants_of, describe_methods

    load_plugins(plugin)
    rows = describe_methods(name)
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    elif name:
        show(constants_of(rows[0]), ["constant", "default", "about"], f"{rows[0]['title']}: {rows[0]['about']}")
        console.print("Change one with --set CONSTANT=VALUE.", highlight=False)
    else:
        show(rows, ["name", "title", "memory", "optimizer", "about"], "Methods")


@app.command()
def datasets(
    data_root: DataRoot = None,
    as_json: Annotated[bool, typer.Option("--json", help="A list of objects.")] = False,
    plugin: Plugin = None,
) -> None:
    """The data sets, and which of them lie under the data root."""
    from emi_bench.data import describe

    load_plugins(plugin)
    rows = describe(data_root)
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    show(rows, ["name", "classes", "tasks", "image_size", "train", "test", "found"], "Data sets")


@app.command()
def doctor(results: Results = "results", data_root: DataRoot = None) -> None:
    """What this machine has, what is missing, and whether a run would work."""
    from emi_bench.cli.doctor import examine

    findings, healthy = examine(results, data_root)
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in findings:
        table.add_row(f"[bold]{name}[/bold]", value)
    console.print(table)
    if not healthy:
        raise typer.Exit(1)


def show(rows: list[dict[str, Any]], columns: list[str], title: str) -> None:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*("" if row[c] is None else escape(str(row[c])) for c in columns))
    console.print(table)


app.add_typer(new_app, name="new")
app.command()(check)
sweep_commands.register(app)
for command in (sweeps, clean, release):
    app.command()(command)
report_commands.register(app)


def main() -> None:
    """Entry point: errors meant for the user are printed without a traceback, and a sweep on Ray is watched over."""
    warnings.formatwarning = lambda message, *args, **kwargs: f"warning: {message}\n"
    try:
        app(obj=guardian.guarded)
    except UserError as e:
        print(f"emi-bench: {e.message}", file=sys.stderr)
        if e.hint:
            print(f"  {e.hint}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
