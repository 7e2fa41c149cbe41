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


def load_plugins(paths: list[Path] | None) -> list[Path]:
    """Import the files of `--plugin`; returns them."""
    from emi_bench.methods import load_plugin

    for path in paths or []:
        load_plugin(path)
    return list(paths or [])
