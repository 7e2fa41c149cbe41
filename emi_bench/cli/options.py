"""Options that mean the same in every command that takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Results = Annotated[str, typer.Option(help="Folder of the results, or an s3:// or gs:// address.")]
DataRoot = Annotated[
    Path | None, typer.Option(help="Where data sets lie. Default: $EMI_BENCH_DATA, else ~/.cache/emi-bench.")
]
Plugin = Annotated[list[Path] | None, typer.Option(help="A Python file with your own methods or data sets.")]


def sweep_file(given: str | Path) -> Path:
    """A sweep by its path, or by its name: here, or among those of the package."""
    from emi_bench.sweep.grammar import sweep_path

    return sweep_path(given)


SweepFile = Annotated[
    Path, typer.Argument(metavar="FILE", parser=sweep_file, help="A sweep file, or a name of `emi-bench sweeps`.")
]


def load_plugins(paths: list[Path] | None) -> list[Path]:
    """Import the files of `--plugin`; returns them."""
    from emi_bench.methods import load_plugin

    for path in paths or []:
        load_plugin(path)
    return list(paths or [])
