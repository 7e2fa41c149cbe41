"""The commands `report`, `table N` and `table1` ... `table6`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.console import Console
from rich.status import Status

from emi_bench.cli.options import DataRoot, Plugin, Results, complete_methods, complete_sweeps, load_plugins, sweep_file
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
#: Sweeps that fill a numbered table.
SWEEPS = {
    1: "table1", 2: "table1", 3: "ablation", 4: "alpha", 5: "prototypes", 6: "efficiency",
}  # fmt: skip
FORMATS = ("text", "md", "latex", "tex", "csv")

SpreadOption = Annotated[str, typer.Option(help="What stands after the ±: std, sem or ci95.")]
ForgettingOption = Annotated[
    str, typer.Option(help="paper: T-1 tasks, rows before the last. raptor: T tasks, all rows.")
]
OursOption = Annotated[
    str,
    typer.Option(
        help="The method the report is about: last row, differences, highlighted curve. Default: the one method of a "
        "plugin that ran, else EMI.",
        autocompletion=complete_methods,
    ),
]
MethodsOption = Annotated[str, typer.Option(help="Only these rows: NAME,NAME.")]
ColumnsOption = Annotated[
    list[str] | None, typer.Option(help="Only these columns: DATASET:MEMORY,MEMORY or DATASET; may be given again.")
]
PaperGridOption = Annotated[
    bool, typer.Option("--paper-grid", help="The paper's whole frame of 15 methods and 9 columns.")
]
FormatOption = Annotated[
    str, typer.Option("--format", help="text, md, latex or csv. Default: text that fits a terminal, md elsewhere.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(report)
    app.command()(table)
    for number, text in TABLES.items():
        app.command(f"table{number}", help=text, hidden=True)(_table_command(number))


def report(
    sweeps: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="SWEEP",
            parser=sweep_file,
            help="Only the runs of these sweeps: files or names.",
            autocompletion=complete_sweeps,
        ),
    ] = None,
    results: Results = "results",
    data_root: DataRoot = None,
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("reports/latest"),
    only: Annotated[str, typer.Option(help="Of tables,figures,html.")] = "tables,figures,html",
    ours: OursOption = "",
    methods: MethodsOption = "",
    columns: ColumnsOption = None,
    paper_grid: PaperGridOption = False,
    spread: SpreadOption = "std",
    forgetting: ForgettingOption = "paper",
    underline: Annotated[bool, typer.Option(help="Underline the second best in LaTeX.")] = True,
    plugin: Plugin = None,
) -> None:
    """Tables, figures, the comparison with the paper and one offline page, from whatever the store holds.

    Half-finished sweeps are fine: every number says how many runs stand behind it, a missing cell is an en dash.
    It reads the results alone: --data-root and --plugin are taken so that the options of a sweep serve here too.
    """
    from emi_bench.report.build import build
    from emi_bench.report.options import ReportOptions

    if plugin:
        load_plugins(plugin)
    console = Console(stderr=True)
    with _progress(console) as status:
        options = ReportOptions(
            sweeps=sweeps or [],
            only=_words(only),
            spread=cast(Spread, spread),
            forgetting=forgetting,
            underline=underline,
            ours=ours,
            methods=_words(methods),
            columns=columns or (),
            paper_grid=paper_grid,
            source=results,
        )
        made = build(results, out, options, progress=lambda text: status.update(f"{text} ..."))
    for line in made.lines:
        console.print(line, highlight=False, markup=False)
    if not made.grid.runs:
        raise typer.Exit(0)
    typer.echo(f"{len(made.files)} files in {made.out}; open {made.open_first}")


def _words(text: str) -> tuple[str, ...]:
    return tuple(p.strip() for p in text.split(",") if p.strip())


def _progress(console: Console) -> Status:
    return console.status("reading the results ...")


def table(
    number: Annotated[int, typer.Argument(min=1, max=6, help="Of the paper's tables.")],
    format_: FormatOption = "",
    results: Results = "results",
    ours: OursOption = "",
    methods: MethodsOption = "",
    columns: ColumnsOption = None,
    paper_grid: PaperGridOption = False,
    spread: SpreadOption = "std",
    forgetting: ForgettingOption = "paper",
) -> None:
    """One of the paper's tables from your runs, or the same for your own grid: 1 accuracy, 2 forgetting, 3 ablation,
    4 thresholds, 5 prototypes, 6 time and memory.

    [bold]Example[/bold]  emi-bench table 1 --columns cifar100:1000,2000 --format latex
    """
    from emi_bench.report.options import ReportOptions

    options = ReportOptions(
        spread=cast(Spread, spread), forgetting=forgetting, ours=ours, methods=_words(methods), columns=columns or (),
        paper_grid=paper_grid,
    )  # fmt: skip
    typer.echo(table_text(number, format_ or ("text" if sys.stdout.isatty() else "md"), results, options), nl=False)


def _table_command(number: int) -> Callable[..., None]:
    def command(
        format_: FormatOption = "",
        results: Results = "results",
        spread: SpreadOption = "std",
        forgetting: ForgettingOption = "paper",
    ) -> None:
        table(number, format_, results, spread=spread, forgetting=forgetting)

    return command


def table_text(number: int, format_: str, results: str, options: object) -> str:
    """One table in one format; for a grid that is not the paper's, the tables that stand in for it."""
    from emi_bench.report.evidence import evidence_of
    from emi_bench.report.latex import latex_table
    from emi_bench.report.model import NUMBERED
    from emi_bench.report.options import ReportOptions, check_choice
    from emi_bench.report.plain import csv_table, fitted_table, markdown_table
    from emi_bench.store import load_runs

    assert isinstance(options, ReportOptions)
    check_choice("format", format_, FORMATS)
    tables = [t for t in evidence_of(load_runs(results), options).tables if t.kind == NUMBERED[number]]
    chosen = [t for t in tables if t.number] or tables
    if not chosen:
        demo = "; `emi-bench sweep demo` makes a small one in minutes" if number in (1, 2, 6) else ""
        raise UserError(
            f"{results} holds no runs for table {number}",
            hint=f"`emi-bench sweep {SWEEPS[number]}` makes them{demo}",
        )
    write = {
        "text": lambda t: fitted_table(t, shutil.get_terminal_size().columns),
        "md": markdown_table, "tex": latex_table, "latex": latex_table, "csv": csv_table,
    }[format_]  # fmt: skip
    return "\n".join(write(t) for t in chosen)
