"""What a run at the terminal needs: parsing of `--set`, a claim, a progress bar, what to say when it ends."""

from __future__ import annotations

import shlex
import traceback
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
import yaml
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from emi_bench import metrics
from emi_bench.errors import UserError, line_in
from emi_bench.methods import get_method
from emi_bench.run.execute import Executed
from emi_bench.run.loop import Progress as Where
from emi_bench.run.result import RunResult
from emi_bench.run.spec import Protocol, RunSpec
from emi_bench.store import Store
from emi_bench.store.leases import Lease


def parse_settings(method: str, settings: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """`--set` words as (config, protocol). Values are YAML; a plain key that only the protocol has goes there.

    >>> parse_settings("er", ["lr=0.05", "protocol.width=8", "replay_batch=16"])
    ({'lr': 0.05}, {'width': 8, 'replay_batch': 16})
    """
    config: dict[str, Any] = {}
    protocol: dict[str, Any] = {}
    own = get_method(method).config_class.model_fields
    for word in settings:
        key, equals, text = word.partition("=")
        if not equals:
            raise UserError(f"--set {word} has no value", hint="write it as --set key=value")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as e:
            raise UserError(
                f"--set {word}: '{text}' is not a value", hint="numbers, true, words and [lists] are"
            ) from e
        if key.startswith("protocol."):
            protocol[key.removeprefix("protocol.")] = value
        elif key not in own and key in Protocol.model_fields:
            protocol[key] = value
        else:
            config[key] = value
    return config, protocol


def blamed(spec: RunSpec, error: Exception) -> Exception:
    """An error of a user's own method, with its line; of any other method the error as it is."""
    if not spec.plugin:
        return error
    traceback.print_exception(error)
    file = Path(spec.plugin)
    line = line_in(file, error)
    where = f"{file}:{line}" if line else str(file)
    hint = f"No result was written. `{shlex.join(['emi-bench', 'check', spec.plugin])}` looks for what else is wrong."
    return UserError(f"{spec.label} failed in {where}: {type(error).__name__}: {error}", hint=hint)


@contextmanager
def held(store: Store, spec: RunSpec) -> Iterator[Callable[[], None]]:
    """Inside, no sweep on this store starts the run, as long as what is yielded is called now and then; one that is at
    work on it already is left to finish it."""
    if store.done(spec):
        yield lambda: None
        return
    store.files.check_writable()
    with Lease(store.files, spec.run_id, owner=uuid.uuid4().hex, label=spec.label) as lease:
        if not lease.held:
            status = shlex.join(["emi-bench", "status", "--results", store.files.uri])
            hint = f"`{status}` shows where it stands; wait for it, or choose another place with --results."
            raise UserError(f"{spec.label} is being run on {store.files.uri} at this moment", hint=hint)
        yield lease.step


class Bar:
    """A bar a task, with the accuracy so far and the time that remains."""

    def __init__(self, console: Console, quiet: bool) -> None:
        self.console = console
        self.quiet = quiet
        self.phase = 0
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            TextColumn("{task.completed:>5.0f}/{task.total:.0f} steps"),
            TextColumn("{task.fields[accuracy]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=False,
            disable=quiet,
        )
        self.bar = self.progress.add_task("", total=1, accuracy="", visible=False)

    @contextmanager
    def shown(self) -> Iterator[None]:
        with self.progress:
            yield

    def start(self, begun: int) -> None:
        self.phase = begun
        if begun and not self.quiet:
            self.console.print(f"going on after {begun} finished tasks", highlight=False)

    def update(self, at: Where) -> None:
        accuracy = "" if at.accuracy is None else f"accuracy {100 * at.accuracy:.1f} %"
        if at.phase > self.phase and not self.quiet and not self.console.is_terminal:
            self.console.print(f"task {at.phase}/{at.n_phases} done  {accuracy}", highlight=False)
        if at.phase != self.phase:
            self.phase = at.phase
            if at.phase < at.n_phases:
                self.progress.reset(self.bar)
        # After the last task the bar stays full, with the accuracy at the end.
        over = at.phase == at.n_phases
        text = f"task {at.phase + (not over)}/{at.n_phases}"
        total = at.n_steps or self.progress.tasks[0].total or 1
        step = total if over else at.step
        self.progress.update(self.bar, description=text, completed=step, total=total, accuracy=accuracy, visible=True)


def tell(console: Console, spec: RunSpec, done: Executed, quiet: bool) -> None:
    """The end of a run, for people, or just the path."""
    if quiet:
        typer.echo(done.path)
        return
    if done.result is None:
        console.print(f"already done: {done.path}", highlight=False, soft_wrap=True)
        return
    summary(console, done.result)
    console.print(f"wrote {done.path}", highlight=False, soft_wrap=True)


def summary(console: Console, result: RunResult) -> None:
    values = metrics.all_metrics(result.matrix)
    told = [f"average accuracy {100 * values['average_accuracy']:.2f} %"]
    if values["forgetting"] == values["forgetting"]:
        told.append(f"forgetting {100 * values['forgetting']:.2f} %")
    told += [f"{result.ms_per_batch:.1f} ms a batch", f"{result.wall_seconds:.0f} s"]
    console.print(", ".join(told), highlight=False)
