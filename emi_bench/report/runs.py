"""From the store's frame to runs the report can trust: what is odd is set aside or marked, and said."""

from __future__ import annotations

import itertools
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from emi_bench import reference
from emi_bench.errors import UserError

#: What `load_runs` must bring for a report to be made.
REQUIRED = (
    "run_id", "method", "variant", "dataset", "n_tasks", "memory", "seed", "batch", "replay_batch", "width",
    "precision", "average_accuracy", "average_incremental_accuracy", "forgetting", "forgetting_raptor", "matrix",
    "config",
)  # fmt: skip
METRIC_COLUMNS = (
    "average_accuracy", "average_incremental_accuracy", "forgetting", "forgetting_raptor", "bwt", "learning_accuracy",
    "ms_per_batch", "peak_memory_bytes", "wall_seconds",
)  # fmt: skip
#: What a reader wants to know about one run, besides its numbers.
FACTS = (
    "device", "n_params", "git_sha", "threads", "started", "finished", "versions", "data_fingerprint", "class_order",
)  # fmt: skip


@dataclass(frozen=True)
class Note:
    """Something the reader must know about the input. `kind` is for tests and styling, `text` for people."""

    kind: str
    text: str


@dataclass(frozen=True, eq=False)
class Run:
    """One finished run. Accuracies in 0-1; `matrix` (T,T) with NaN above the diagonal."""

    run_id: str
    method: str
    variant: str  #: "" for the method's default constants, else a name for what differs
    dataset: str
    n_tasks: int
    memory: int
    seed: int
    protocol: tuple[tuple[str, Any], ...]
    values: dict[str, float]
    matrix: NDArray[np.float64]
    config: dict[str, Any]
    command: str
    schema_version: int
    facts: dict[str, Any] = field(default_factory=dict)


def overrides(command: str) -> dict[str, str] | None:
    """The method constants a rerun command sets, or None for a command that is not one of ours.

    >>> overrides("emi-bench run --method emi --seed 0 --set protocol.width=8 --set alpha=0.3")
    {'alpha': '0.3'}
    """
    words = shlex.split(command) if command else []
    if words[:2] != ["emi-bench", "run"]:
        return None
    pairs = [w.partition("=") for flag, w in itertools.pairwise(words) if flag == "--set"]
    return {key: value for key, _, value in pairs if not key.startswith("protocol.")}


def named_variant(variant: str, command: str) -> str:
    """The variant by what the run did, not by who asked for it: a sweep may name the default config, a user may change
    a constant without a name.

    >>> named_variant("full", "emi-bench run --method emi --seed 0")
    ''
    >>> named_variant("", "emi-bench run --method emi --seed 0 --set lr=0.5")
    'lr=0.5'
    """
    changed = overrides(command)
    if changed is None:
        return variant
    return (variant or ", ".join(f"{k}={v}" for k, v in changed.items())) if changed else ""


def read_runs(frame: pd.DataFrame) -> tuple[list[Run], list[Note]]:
    """The trusted runs of a `load_runs` frame, in a fixed order, and the notes on what was odd."""
    missing = [c for c in REQUIRED if c not in frame.columns]
    if missing:
        raise UserError(
            f"these results lack the columns {', '.join(missing)}",
            hint="give the report what emi_bench.load_runs() returns",
        )
    runs = [_run(row) for row in frame.to_dict("records")]
    runs.sort(key=lambda r: (r.dataset, r.n_tasks, r.memory, r.method, r.variant, r.seed, r.run_id))
    notes: list[Note] = []
    for step in (_same_file_twice, _incomplete, _same_cell_twice):
        runs = step(runs, notes)
    for look in (_schemas, _contents, _orders, _configs, _strangers, _lonely):
        look(runs, notes)
    return runs, notes


def _run(row: dict[Hashable, Any]) -> Run:
    protocol = row.get("protocol")
    if not isinstance(protocol, dict):
        protocol = {k: row[k] for k in ("batch", "replay_batch", "width", "precision")}
    command = row.get("command")
    command = command if isinstance(command, str) else ""
    version = row.get("schema_version", 0)
    return Run(
        run_id=str(row["run_id"]),
        method=str(row["method"]),
        variant=named_variant(str(row["variant"] or ""), command),
        dataset=str(row["dataset"]),
        n_tasks=int(row["n_tasks"]),
        memory=int(row["memory"]),
        seed=int(row["seed"]),
        protocol=tuple(sorted((k, v) for k, v in protocol.items() if k != "n_tasks")),
        values={c: float(row[c]) if row.get(c) is not None else float("nan") for c in METRIC_COLUMNS},
        matrix=np.asarray(row["matrix"], dtype=np.float64),
        config=dict(row["config"] or {}),
        command=command,
        schema_version=int(version) if version == version else 0,
        facts={k: row[k] for k in FACTS if k in row},
    )


def cell_key(run: Run) -> tuple[Any, ...]:
    """What must be equal for two runs to differ in their seed alone."""
    return (run.method, run.variant, run.dataset, run.n_tasks, run.memory, run.protocol)


def name(run: Run) -> str:
    """For people: `emi[np3] cifar100 M=1000 seed 4`."""
    variant = f"[{run.variant}]" if run.variant else ""
    return f"{run.method}{variant} {run.dataset} M={run.memory} seed {run.seed}"


def few(texts: Iterable[str], limit: int = 3) -> str:
    """The first of them and how many more there are."""
    all_texts = list(texts)
    rest = len(all_texts) - limit
    return "; ".join(all_texts[:limit]) + (f"; and {rest} more" if rest > 0 else "")


def _same_file_twice(runs: list[Run], notes: list[Note]) -> list[Run]:
    once = {r.run_id: r for r in runs}
    if len(once) < len(runs):
        twice = [i[:12] for i, n in Counter(r.run_id for r in runs).items() if n > 1]
        notes.append(
            Note(
                "duplicate",
                f"{len(runs) - len(once)} run files stand twice in the store; one of each is used: {few(twice)}",
            )
        )
    return list(once.values())


def fault(run: Run) -> str:
    """Why a matrix cannot be used, or ''."""
    t = run.n_tasks
    if run.matrix.shape != (t, t):
        return f"its matrix has shape {run.matrix.shape}, not {(t, t)}"
    first = t - 1 if run.method == "offline" else 0
    below = np.tril(np.ones((t, t), dtype=bool))[first:]
    known = run.matrix[first:]
    bad = below & ~((known >= 0) & (known <= 1))
    if not bad.any():
        return ""
    i = int(bad.any(axis=1).argmax())
    row = known[i][below[i]]
    after = f"task {first + i + 1}"
    if np.isnan(row).all():
        return f"its matrix has no row for {after}"
    if not np.isfinite(row).all():
        return f"its accuracy after {after} is not a number"
    return f"its accuracy after {after} is outside 0-1"


def _incomplete(runs: list[Run], notes: list[Note]) -> list[Run]:
    faults = {r.run_id: f for r in runs if (f := fault(r))}
    if faults:
        said = (f"{name(r)}: {faults[r.run_id]}" for r in runs if r.run_id in faults)
        notes.append(
            Note("incomplete", f"{len(faults)} runs are set aside, their cells count as missing them: {few(said)}")
        )
    return [r for r in runs if r.run_id not in faults]


def _same_cell_twice(runs: list[Run], notes: list[Note]) -> list[Run]:
    by_cell: dict[tuple[Any, ...], list[Run]] = defaultdict(list)
    for r in runs:
        by_cell[(*cell_key(r), r.seed)].append(r)
    clashes = [c for c in by_cell.values() if len(c) > 1]
    if clashes:
        said = (f"{name(c[0])} ({len(c)} runs)" for c in clashes)
        notes.append(
            Note("duplicate", f"{len(clashes)} cells hold several runs of one seed (the method's version or constants "
                 f"changed); the one that finished last is used: {few(said)}")
        )  # fmt: skip
    return [max(c, key=lambda r: (str(r.facts.get("finished", "")), r.run_id)) for c in by_cell.values()]


def _schemas(runs: list[Run], notes: list[Note]) -> None:
    versions = Counter(r.schema_version for r in runs)
    if len(versions) > 1:
        said = ", ".join(f"{n} of version {v}" for v, n in sorted(versions.items()))
        notes.append(Note("schema", f"the files were written with different schema versions: {said}"))


def _differs(runs: list[Run], group: Callable[[Run], Hashable], value: Callable[[Run], Hashable]) -> list[Run]:
    """The first run of every group whose runs do not agree on `value`."""
    first: dict[Hashable, Run] = {}
    odd: dict[Hashable, Run] = {}
    for r in runs:
        seen = first.setdefault(group(r), r)
        if value(seen) != value(r):
            odd.setdefault(group(r), r)
    return list(odd.values())


def _contents(runs: list[Run], notes: list[Note]) -> None:
    odd = _differs(runs, lambda r: r.dataset, lambda r: str(r.facts.get("data_fingerprint")))
    if odd:
        notes.append(
            Note(
                "fingerprint",
                f"runs on {', '.join(r.dataset for r in odd)} saw different data contents: they are not comparable",
            )
        )


def _orders(runs: list[Run], notes: list[Note]) -> None:
    with_order = [r for r in runs if r.facts.get("class_order") is not None]
    odd = _differs(
        with_order, lambda r: (r.dataset, r.n_tasks, r.protocol, r.seed), lambda r: tuple(r.facts["class_order"])
    )
    if odd:
        said = (f"{r.dataset} seed {r.seed}" for r in odd)
        notes.append(
            Note(
                "unpaired",
                f"methods saw different class orders for one seed, so differences are not truly paired: {few(said)}",
            )
        )


def _configs(runs: list[Run], notes: list[Note]) -> None:
    odd = _differs(runs, cell_key, lambda r: repr(sorted(r.config.items(), key=lambda kv: str(kv[0]))))
    if odd:
        said = (f"{r.method}{f'[{r.variant}]' if r.variant else ''} {r.dataset} M={r.memory}" for r in odd)
        notes.append(Note("config", f"cells whose runs have different constants: {few(said)}"))


def _strangers(runs: list[Run], notes: list[Note]) -> None:
    own = sorted({r.method for r in runs} - set(reference.methods()))
    if own:
        notes.append(
            Note(
                "unknown-method",
                f"not among the paper's methods, shown under their own names without a citation: {', '.join(own)}",
            )
        )


def _lonely(runs: list[Run], notes: list[Note]) -> None:
    seeds: dict[tuple[Any, ...], set[int]] = defaultdict(set)
    for r in runs:
        seeds[cell_key(r)].add(r.seed)
    single = sum(len(s) == 1 for s in seeds.values())
    if single:
        notes.append(
            Note(
                "one-seed", f"{single} of {len(seeds)} cells rest on one seed: no spread, no interval, no test for them"
            )
        )
