"""The commands `new method` and `new sweep`: files to start from, which work as they are."""

from __future__ import annotations

import contextlib
import keyword
import re
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from emi_bench.errors import UserError

new_app = typer.Typer(no_args_is_help=True, help="Write a method or a sweep of your own to start from.")


@new_app.command()
def method(name: Annotated[str, typer.Argument(metavar="NAME", help="Lower case: my_method, say.")]) -> None:
    """A whole method in NAME.py (ER, to be changed), with its constants, and its test."""
    from emi_bench.facts import built_in_facts

    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise UserError(f"'{name}' cannot be a method's name", hint="use lower-case letters, digits and _: my_method")
    if name in built_in_facts():
        raise UserError(f"{name} is a method of emi-bench", hint="choose another name: it would stand in for that one")
    title = name.replace("_", " ").capitalize()
    words = {"name": name, "title": title, "class_name": "".join(part.capitalize() for part in name.split("_"))}
    write({Path(f"{name}.py"): "method.py.txt", Path(f"test_{name}.py"): "test_method.py.txt"}, words)
    typer.echo(f"wrote {name}.py and test_{name}.py; next: emi-bench check {name}.py")


@new_app.command()
def sweep(
    name: Annotated[
        str | None, typer.Argument(metavar="[METHOD]", help="Your method, in METHOD.py of this folder.")
    ] = None,
) -> None:
    """A sweep file with your method beside three baselines on digits."""
    name = name or _the_method_here()
    if not Path(f"{name}.py").is_file():
        raise UserError(f"there is no {name}.py here", hint=f"`emi-bench new method {name}` writes one")
    file = Path(f"sweep_{name}.yaml")
    words = {"name": name, "sweep": f"sweep_{name}", "title": name.replace("_", " ").capitalize(), "file": str(file)}
    write({file: "sweep.yaml.txt"}, words)
    typer.echo(f"wrote {file}; next: emi-bench sweep {file}")


def write(targets: dict[Path, str], words: dict[str, str]) -> None:
    """Fill templates in; nothing is written where one of the files is there already."""
    for file in targets:
        if file.exists():
            raise UserError(f"{file} is here already", hint="rename it, or choose another name")
    for file, template in targets.items():
        text = (files("emi_bench") / "cli" / "templates" / template).read_text("utf-8")
        file.write_text(Template(text).substitute(words), encoding="utf-8")


def _the_method_here() -> str:
    from emi_bench.facts import methods_in

    here = []
    for file in sorted(Path().glob("*.py")):
        with contextlib.suppress(SyntaxError, ValueError):  # no Python: no method of ours
            here += [file.stem] if file.stem in methods_in(file.read_text("utf-8", "replace")) else []
    if len(here) != 1:
        told = f"there are {', '.join(here)}" if here else "this folder has no file with a method named like it"
        raise UserError(f"which method? {told}", hint="name it: `emi-bench new sweep METHOD`")
    return here[0]
