"""Options that mean the same in every command that takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def complete_methods(begun: str) -> list[str]:
    """For the shell; known without importing them."""
    from emi_bench.facts import built_in_facts

    return [name for name in built_in_facts() if name.startswith(begun)]


def complete_datasets(begun: str) -> list[str]:
    """For the shell: the built-in ones, and the beginnings of a user's own."""
    from emi_bench import reference

    return [n for n in ("digits", *reference.settings()["datasets"], "npz:", "folder:") if n.startswith(begun)]


def complete_sweeps(begun: str) -> list[str]:
    """For the shell: sweep files below what was typed, those in sweeps/ where nothing was."""
    place = Path(begun) if begun.endswith("/") else Path(begun).parent if begun else Path("sweeps")
    found = [f"{p}/" if p.is_dir() else str(p) for p in sorted(place.glob("*"))]
    return [name for name in found if name.startswith(begun) and name.endswith(("/", ".yaml", ".yml"))]


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
    Path,
    typer.Argument(
        metavar="FILE",
        parser=sweep_file,
        help="A sweep file, or a name of `emi-bench sweeps`.",
        autocompletion=complete_sweeps,
    ),
]


def load_plugins(paths: list[Path] | None) -> list[Path]:
    """Import the files of `--plugin`; returns them."""
    from emi_bench.methods import load_plugin

    for path in paths or []:
        load_plugin(path)
    return list(paths or [])
