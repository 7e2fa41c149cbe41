"""For notebooks: `emi_bench.run(...)` is one run, `emi_bench.sweep(...)` many; both as the commands do it."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from emi_bench.metrics import all_metrics
from emi_bench.run.spec import RunSpec

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Result:
    """One run: what it was and how it did. In a notebook it shows itself as a small table and a heat map."""

    spec: RunSpec
    matrix: np.ndarray  #: (T,T), accuracy on task j after task i, NaN above the diagonal
    path: str | None = None  #: of the stored file; None where nothing was stored

    @property
    def metrics(self) -> dict[str, float]:
        """Average accuracy, both forgettings and the rest, by name, in 0-1."""
        return all_metrics(self.matrix)

    @property
    def average_accuracy(self) -> float:
        return self.metrics["average_accuracy"]

    @property
    def forgetting(self) -> float:
        """As the EMI paper has it; NaN for a method that is evaluated once."""
        return self.metrics["forgetting"]

    def __repr__(self) -> str:
        return f"<Result {self.spec.label}: average accuracy {100 * self.average_accuracy:.1f} %>"

    def _repr_html_(self) -> str:
        shown = {"average accuracy": self.average_accuracy, "forgetting": self.forgetting}
        told = ", ".join(f"{name} <b>{100 * v:.1f} %</b>" for name, v in shown.items() if v == v)
        head = "".join(f"<th>task {j + 1}</th>" for j in range(len(self.matrix)))
        rows = "".join(
            f"<tr><th>after {i + 1}</th>{''.join(map(_cell, row))}</tr>"
            for i, row in enumerate(self.matrix)
            if not np.isnan(row).all()
        )
        stored = f"<br>stored in <code>{escape(self.path)}</code>" if self.path else ""
        return f"<p><b>{escape(self.spec.label)}</b>: {told}{stored}</p><table><tr><th></th>{head}</tr>{rows}</table>"


def _cell(value: float) -> str:
    """A number on its colour: white for nothing right, blue for all; dark ground gets light letters."""
    if np.isnan(value):
        return "<td></td>"
    red, green = round(255 - 222 * value), round(255 - 142 * value)
    ink = "#fff" if value > 0.6 else "#000"
    return f'<td style="background:rgb({red},{green},255);color:{ink};text-align:right">{100 * value:.1f}</td>'


def run(
    method: str,
    dataset: str,
    memory: int = 0,
    seed: int = 0,
    *,
    config: Mapping[str, Any] | None = None,
    protocol: Mapping[str, Any] | None = None,
    plugin: str | Path | None = None,
    results: str | Path | None = None,
    data_root: str | Path | None = None,
    device: str | None = None,
    threads: int = 1,
) -> Result:
    """One run of a method. Stores nothing unless `results` names a place; a run that lies there is not done again.

    `config` changes constants of the method, `protocol` the stream, `plugin` is the file of a method of your own.

    >>> import emi_bench
    >>> small = {"width": 2, "batch": 50, "train_per_class": 20}
    >>> result = emi_bench.run("er", "digits", memory=50, seed=1, protocol=small)
    >>> result.matrix.shape, result.path, 0 <= result.average_accuracy <= 1
    ((5, 5), None, True)
    """
    import torch

    from emi_bench.data import load
    from emi_bench.methods import load_plugin
    from emi_bench.run.execute import choose_device, execute, make_repeatable
    from emi_bench.run.loop import run as looped
    from emi_bench.run.resolve import resolve
    from emi_bench.store import Store, load_runs

    if plugin is not None:
        load_plugin(plugin)
    root = Path(data_root) if data_root is not None else None
    spec = resolve(method, dataset, memory=memory, seed=seed, config=config, protocol=protocol, root=root)
    where = choose_device(device)

    if results is None:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        make_repeatable()
        try:
            data = load(dataset, root, reduction=spec.protocol.reduction)
            return Result(spec, looped(spec, data, device=where).matrix)
        finally:
            torch.set_num_threads(before)
    done = execute(
        spec,
        Store(str(results)),
        lambda: load(dataset, root, reduction=spec.protocol.reduction),
        device=where,
        threads=threads,
    )
    if done.result is not None:
        return Result(spec, done.result.matrix, done.path)
    stored = load_runs(str(results))
    return Result(spec, stored.loc[stored["run_id"] == spec.run_id, "matrix"].iloc[0], done.path)


def sweep(
    file: str | Path | Mapping[str, Any],
    *,
    results: str | Path = "results",
    executor: str = "inline",
    only: Sequence[str] = (),
    seeds: str | None = None,
    data_root: str | Path | None = None,
) -> pd.DataFrame:
    """Run what a sweep names and the store lacks; the sweep's runs, a row each, as `load_runs` gives them.

    A path, a name of `emi-bench sweeps`, or the content of a sweep file as a dict (plugins relative to this folder).
    With the executor `inline` the runs are done one after the other in this process; `ray` uses all of the machine.

    >>> import emi_bench, tempfile
    >>> content = {"name": "mine", "methods": ["finetune"], "seeds": 2}
    >>> content["settings"] = [{"dataset": "digits", "memory": 10}]
    >>> content["protocol"] = {"width": 2, "batch": 50, "train_per_class": 20}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     runs = emi_bench.sweep(content, results=folder)  # doctest: +ELLIPSIS
    mine: 2 runs, 0 done, 2 to run
    ...
    >>> runs["method"].tolist(), runs["seed"].tolist()
    (['finetune', 'finetune'], [0, 1])
    """
    from rich.console import Console

    from emi_bench.store import Store, load_runs
    from emi_bench.sweep.asked import Asked
    from emi_bench.sweep.driver import run_sweep
    from emi_bench.sweep.grammar import sweep_path
    from emi_bench.sweep.plan import planned

    with tempfile.TemporaryDirectory() as folder:
        if isinstance(file, Mapping):
            content = dict(file) | {"plugins": [str(Path(p).absolute()) for p in file.get("plugins", [])]}
            path = Path(folder) / "sweep.yaml"
            path.write_text(yaml.safe_dump(content), encoding="utf-8")
        else:
            path = sweep_path(file)
        root = Path(data_root).absolute() if data_root is not None else None
        asked = Asked(path, str(results), root, list(only), seeds, executor=executor)
        if run_sweep(Console(), asked):
            warnings.warn(f"not every run was done: `{asked.failures()}` says why", stacklevel=2)
        _, plan = planned(asked, Store(str(results)))
    runs = load_runs(str(results))
    ids = [cell.run_id for cell in plan.cells]
    return runs[runs["run_id"].isin(ids)].reset_index(drop=True)
