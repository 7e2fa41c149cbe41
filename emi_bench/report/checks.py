"""What may be odd about a store's runs: found, set aside or marked, and said."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd

from emi_bench.errors import UserError
from emi_bench.facts import built_in_facts
from emi_bench.report.axes import Row, Setting
from emi_bench.report.configurations import named_apart
from emi_bench.report.runs import REQUIRED, Note, Run, to_run

#: Protocol fields by which a run saw a part of its data set.
REDUCTION = frozenset({"image_size", "train_per_class", "test_per_class", "tasks"})
Records = pd.DataFrame | Sequence[Mapping[str, Any]]  #: what `load_runs` returns, or its rows


def as_records(runs: Records) -> Sequence[Mapping[Any, Any]]:
    return runs.to_dict("records") if isinstance(runs, pd.DataFrame) else runs


def read_runs(records: Records, wanted: Callable[[Run], bool] = lambda _: True) -> tuple[list[Run], list[Note]]:
    """The trusted runs among the wanted of a store's, in a fixed order, and the notes on what was odd."""
    rows = as_records(records)
    columns = records if isinstance(records, pd.DataFrame) else rows[0] if rows else REQUIRED
    missing = [c for c in REQUIRED if c not in columns]
    if missing:
        raise UserError(
            f"these results lack the columns {', '.join(missing)}",
            hint="give the report what emi_bench.load_runs() returns",
        )
    runs = [run for row in rows if wanted(run := to_run(row))]
    column = ("setting.dataset", "setting.n_tasks", "setting.memory")
    runs.sort(key=attrgetter(*column, "row.method", "row.variant", "seed", "run_id"))
    notes: list[Note] = []
    for step in (_same_file_twice, _incomplete, _other_contents, named_apart, _same_cell_twice):
        runs = step(runs, notes)
    for look in (_schemas, _orders, _configs, _strangers, _lonely):
        look(runs, notes)
    return runs, notes


def few(texts: Iterable[str], limit: int = 3) -> str:
    """The first of them and how many more there are."""
    all_texts = list(texts)
    rest = len(all_texts) - limit
    return "; ".join(all_texts[:limit]) + (f"; and {rest} more" if rest > 0 else "")


def cell_key(run: Run) -> tuple[Row, Setting]:
    """What must be equal for two runs to differ in their seed alone."""
    return run.row, run.setting


def _same_file_twice(runs: list[Run], notes: list[Note]) -> list[Run]:
    once = {r.run_id: r for r in runs}
    if len(once) < len(runs):
        twice = [i[:12] for i, n in Counter(r.run_id for r in runs).items() if n > 1]
        said = f"{len(runs) - len(once)} run files stand twice in the store; one of each is used: {few(twice)}"
        notes.append(Note("duplicate", said))
    return list(once.values())


def fault(run: Run) -> str:
    """Why a matrix cannot be used, or ''."""
    t = run.setting.n_tasks
    if run.matrix.shape != (t, t):
        return f"its matrix has shape {run.matrix.shape}, not {(t, t)}"
    first = t - 1 if run.joint else 0
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
        which = few(f"{r.name}: {faults[r.run_id]}" for r in runs if r.run_id in faults)
        notes.append(
            Note("incomplete", f"{len(faults)} runs are set aside, their cells count as missing them: {which}")
        )
    return [r for r in runs if r.run_id not in faults]


def _other_contents(runs: list[Run], notes: list[Note]) -> list[Run]:
    """Of runs that saw different data under one name, those on the content that most saw; of as many, on the one that
    was run last."""
    seen: dict[Hashable, dict[str, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for r in runs:
        part = tuple(pair for pair in r.setting.protocol if pair[0] in REDUCTION)
        seen[r.setting.dataset, part][str(r.about.get("data_fingerprint"))].append(r)
    aside: set[str] = set()
    for contents in seen.values():
        kept = max(contents, key=lambda f: (len(contents[f]), max(r.finished for r in contents[f]), f))
        odd = [r for f, some in contents.items() if f != kept for r in some]
        if odd:
            where, most = odd[0].setting.dataset, len(contents[kept])
            said = f"{len(odd)} runs on {where} saw other data than {most} runs under this name"
            notes.append(Note("fingerprint", f"{said}; they are set aside: {few(r.name for r in odd)}"))
            aside |= {r.run_id for r in odd}
    return [r for r in runs if r.run_id not in aside]


def _same_cell_twice(runs: list[Run], notes: list[Note]) -> list[Run]:
    by_cell: dict[tuple[Any, ...], list[Run]] = defaultdict(list)
    for r in runs:
        by_cell[(*cell_key(r), r.seed)].append(r)
    clashes = [c for c in by_cell.values() if len(c) > 1]
    if clashes:
        said = (f"{c[0].name} ({len(c)} runs)" for c in clashes)
        text = f"{len(clashes)} cells hold several runs of one seed; the one that finished last is used: {few(said)}"
        notes.append(Note("duplicate", text))
    return [max(c, key=lambda r: (r.finished, r.run_id)) for c in by_cell.values()]


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


def _orders(runs: list[Run], notes: list[Note]) -> None:
    with_order = [r for r in runs if r.about.get("class_order") is not None]
    odd = _differs(with_order, lambda r: (r.setting.family, r.seed), lambda r: tuple(r.about["class_order"]))
    if odd:
        said = "methods saw different class orders for one seed, so differences are not truly paired"
        notes.append(Note("unpaired", f"{said}: {few(f'{r.setting.dataset} seed {r.seed}' for r in odd)}"))


def _configs(runs: list[Run], notes: list[Note]) -> None:
    odd = _differs(runs, cell_key, lambda r: repr(sorted(r.config.items(), key=lambda kv: str(kv[0]))))
    if odd:
        said = (r.name.partition(" seed")[0] for r in odd)
        notes.append(Note("config", f"cells whose runs differ in constants that cannot change a result: {few(said)}"))


def _strangers(runs: list[Run], notes: list[Note]) -> None:
    own = sorted({r.row.method for r in runs if r.row.facts is None} - set(built_in_facts()))
    if own:
        said = "methods that say nothing of themselves, shown under their names without a citation"
        notes.append(Note("unknown-method", f"{said}: {', '.join(own)}"))


def _lonely(runs: list[Run], notes: list[Note]) -> None:
    seeds: dict[tuple[Any, ...], set[int]] = defaultdict(set)
    for r in runs:
        seeds[cell_key(r)].add(r.seed)
    single = sum(len(s) == 1 for s in seeds.values())
    if single:
        said = f"{single} of {len(seeds)} cells rest on one seed: no spread, no interval, no test for them"
        notes.append(Note("one-seed", said))
