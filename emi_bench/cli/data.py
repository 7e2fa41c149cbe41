"""`emi-bench data`: fetch, check and look at data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.table import Table

from emi_bench.cli.options import DataRoot, Plugin, load_plugins
from emi_bench.errors import UserError

data_app = typer.Typer(no_args_is_help=True, help="Fetch, check and look at data sets.")
console = Console()

Name = Annotated[str, typer.Argument(help="See `emi-bench datasets`; or npz:PATH, folder:PATH, tiny:PATH.")]


@data_app.command("download")
def download(name: str, data_root: DataRoot = None) -> None:
    """Fetch a data set, check it, and put it in place."""
    from emi_bench import data

    console.print(f"{name} is at {data.download(name, data_root)}")


@data_app.command("verify")
def verify(name: Name, data_root: DataRoot = None, plugin: Plugin = None) -> None:
    """Load a data set and compare its content with the known fingerprint."""
    from emi_bench import data

    load_plugins(plugin)
    verdict = data.verify(name, data_root)
    console.print(f"{name}: {'ok' if verdict.ok else 'NOT OK'}, {verdict.detail}", highlight=False, soft_wrap=True)
    if verdict.where:
        console.print(f"at {verdict.where}", highlight=False, soft_wrap=True)
    if verdict.fingerprint:
        console.print(f"content {verdict.fingerprint}", highlight=False, soft_wrap=True)
    if not verdict.ok:
        raise typer.Exit(1)


@data_app.command("inspect")
def inspect(
    name: Name,
    n_tasks: Annotated[int | None, typer.Option(min=1, help="Equal tasks to split the classes into.")] = None,
    tasks: Annotated[str | None, typer.Option(help="Tasks by their classes: '[[cat, dog], [car, truck]]'.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Equal tasks are drawn from it.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Where the picture goes. Default: the data set's name.")] = None,
    data_root: DataRoot = None,
    plugin: Plugin = None,
) -> None:
    """Classes, counts and tasks of a data set, and a picture of it.

    [bold]Example[/bold]  emi-bench data inspect npz:birds.npz --tasks '[[robin, crow], [owl]]' --out birds.png
    """
    from emi_bench.data import load
    from emi_bench.data.picture import picture
    from emi_bench.data.stream import Stream
    from emi_bench.run.resolve import check_tasks
    from emi_bench.run.spec import Protocol, check_keys

    load_plugins(plugin)
    protocol = check_keys(Protocol, {"n_tasks": n_tasks, "tasks": _value(tasks)}, "protocol")
    data = load(name, data_root)
    split: list[list[int]] = []
    if protocol.groups is not None or protocol.n_tasks or data.info.n_tasks:
        protocol = protocol.model_copy(update=check_tasks(data.info, protocol, "--n-tasks N"))
        data = protocol.reduction.apply(data)
        assert protocol.n_tasks is not None
        split = Stream.of(data, protocol.n_tasks, seed, groups=protocol.groups).tasks
    train, test = (y.bincount(minlength=data.n_classes).tolist() for y in (data.y_train, data.y_test))
    task_of = {c: t for t, classes in enumerate(split, 1) for c in classes}

    say = f"{data.name}: {data.n_classes} classes, {sum(train)} training and {sum(test)} test images of "
    console.print(f"{say}{data.image_size}x{data.image_size}", highlight=False, soft_wrap=True)
    rows = [(c, n, train[c], test[c], task_of.get(c, "")) for c, n in enumerate(data.class_names)]
    _show(["class", "name", "train", "test", "task"], rows)
    if split:
        named = [", ".join(data.class_names[c] for c in classes) for classes in split]
        counts = [(sum(train[c] for c in classes), sum(test[c] for c in classes)) for classes in split]
        _show(["task", "train", "test", "classes"], [(t, *counts[t - 1], n) for t, n in enumerate(named, 1)])
    else:
        console.print("No tasks yet: --n-tasks N splits the classes equally, --tasks says which are learned together.")
    path = out or Path(f"{data.name}.png")
    try:
        picture(data).save(path, "PNG")
    except OSError as e:
        raise UserError(f"{path} cannot be written: {e}", hint="Name another place: --out FILE.png") from e
    console.print(f"first training images of each class: {path}", highlight=False, soft_wrap=True)


def _value(text: str | None) -> Any:
    try:
        return None if text is None else yaml.safe_load(text)
    except yaml.YAMLError as e:
        raise UserError(f"--tasks {text} is not a list", hint="write it as '[[cat, dog], [car, truck]]'") from e


def _show(columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", justify="right" if column in ("train", "test") else "left")
    for row in rows:
        table.add_row(*map(str, row))
    console.print(table)
