"""The commands `report` and `table1` ... `table6`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.console import Console
from rich.status import Status

from emi_bench.cli.options import DataRoot, Plugin, Results, load_plugins, sweep_file
from emi_bench.errors import UserError
from emi_bench.report.axes import Spread

TABLES = {
    1: "Average accuracy of every method (Table I, or the same for your own grid).",
    2: "Average forgetting (Table II, or the same for your own grid).",
    3: "Ablation of EMI's parts (Table III).",
    4: "EMI's thresholds alpha and alpha_b (Table IV).",
    5: "EMI's samples per prototype (Table V).",
    6: "Time and memory of the mutual-information methods (Table VI).",
}
#: What stands in for a numbered table when the grid is not the paper's.
STANDS_IN = {1: "accuracy", 2: "forgetting", 3: "ablation_", 4: "alpha_", 5: "prototypes_", 6: "efficiency_"}
FORMATS = ("md", "tex", "csv")

SpreadOption = Annotated[str, typer.Option(help="What stands after the ±: std, sem or ci95.")]
ForgettingOption = Annotated[
    str, typer.Option(help="paper: T-1 tasks, rows before the last. raptor: T tasks, all rows.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(report)
    for number, text in TABLES.items():
        app.command(f"table{number}", help=text)(_table_command(number))


def report(
    sweeps: Annotated[
        list[Path] | None,
        typer.Argument(metavar="SWEEP", parser=sweep_file, help="Only the runs of these sweeps: files or names."),
    ] = None,
    results: Results = "results",
    data_root: DataRoot = None,
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("reports/latest"),
    only: Annotated[str, typer.Option(help="Of tables,figures,html.")] = "tables,figures,html",
    spread: SpreadOption = "std",
    forgetting: ForgettingOption = "paper",
    underline: Annotated[bool, typer.Option(help="Underline the second best in LaTeX.")] = True,
    plugin: Plugin = None,
) -> None:
    """Tables, figures, the comparison with the paper and one offline page, from whatever the store holds.

    Half-finished sweeps are fine: every number says how many runs stand behind it, a missing cell is an en dash.
    It reads the results alone: --data-root and --plugin are taken so that the options of a sweep serve here too.
    """
    from emi_bench.report.build import ReportOptions, build

    load_plugins(plugin)

    console = Console(stderr=True)
    parts = tuple(p.strip() for p in only.split(",") if p.strip())
    with _progress(console) as status:
        options = ReportOptions(sweeps or [], parts, cast(Spread, spread), forgetting, underline)
        made = build(results, out, options, progress=lambda text: status.update(f"{text} ..."))
    for line in made.lines:
        console.print(line, highlight=False, markup=False)
    if not made.grid.runs:
        raise typer.Exit(0)
    typer.echo(f"{len(made.files)} files in {made.out}; open {made.open_first}")


def _progress(console: Console) -> Status:
    return console.status("reading the results ...")


def _table_command(number: int) -> Callable[..., None]:
    def command(
        format_: Annotated[str, typer.Option("--format", help="md, tex or csv.")] = "md",
        results: Results = "results",
        spread: SpreadOption = "std",
        forgetting: ForgettingOption = "paper",
    ) -> None:
        typer.echo(table_text(number, format_, results, cast(Spread, spread), forgetting), nl=False)

    return command


def table_text(number: int, format_: str, results: str, spread: Spread, forgetting: str) -> str:
    """One table in one format; for a grid that is not the paper's, the tables that stand in for it."""
    from emi_bench import load_runs
    from emi_bench.report.axes import SPREADS
    from emi_bench.report.build import FORGETTINGS, check_choice
    from emi_bench.report.grid import Grid
    from emi_bench.report.latex import latex_table
    from emi_bench.report.plain import csv_table, markdown_table
    from emi_bench.report.tables import all_tables

    check_choice("format", format_, FORMATS)
    check_choice("spread", spread, SPREADS)
    check_choice("forgetting", forgetting, FORGETTINGS)
    tables = all_tables(Grid(load_runs(results)), spread, FORGETTINGS[forgetting])
    chosen = [t for t in tables if t.name == f"table{number}"] or [
        t
        for t in tables
        if t.name == STANDS_IN[number] or ("_" in STANDS_IN[number] and t.name.startswith(STANDS_IN[number]))
    ]
    if not chosen:
        raise UserError(
            f"{results} holds no runs for table {number}",
            hint="`emi-bench sweep demo` makes some in minutes; `emi-bench plan table1` shows the paper's grid",
        )
    write = {"md": markdown_table, "tex": latex_table, "csv": csv_table}[format_]
    return "\n".join(write(t) for t in chosen)
