"""Runs of different configurations under one name: rows of their own, named by what differs, never one mean.

Of a method's versions, and of the contents of a user's own file, the newest keeps the name; the others stand below it
like variants. A name whose constants differ within one column says them; where nobody changed them (a default that is
another one now) those of the run that finished last keep the name.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from emi_bench.report.axes import Row, Setting
from emi_bench.report.runs import Note, Run, in_words


def named_apart(runs: list[Run], notes: list[Note]) -> list[Run]:
    """The runs, those of older versions and of several constants under names of their own."""
    return _by_constants(_by_version(runs, notes), notes)


def _by_version(runs: list[Run], notes: list[Note]) -> list[Run]:
    versions: dict[str, int] = {}
    codes: dict[tuple[str, int], tuple[str, str]] = {}
    for r in runs:
        method, key = r.row.method, (r.row.method, r.version)
        versions[method] = max(versions.get(method, r.version), r.version)
        codes[key] = max(codes.get(key, ("", "")), (r.finished, r.code))

    def age(r: Run) -> str:
        words = [f"version {r.version}"] if r.version < versions[r.row.method] else []
        edited = r.code != codes[r.row.method, r.version][1]
        return ", ".join([*words, f"code {r.code[:6] or 'unknown'}"] if edited else words)

    out = [
        replace(_named(r, ", ".join(filter(None, [r.row.variant, told]))), newest=r.row) if (told := age(r)) else r
        for r in runs
    ]
    _say("version", "runs of an older version of a method, or of its file, have rows of their own", runs, out, notes)
    return out


def _by_constants(runs: list[Run], notes: list[Note]) -> list[Run]:
    columns: dict[Row, dict[Setting, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for r in runs:
        columns[r.row][r.setting].append(r)
    names: dict[str, str] = {}
    for row, found in columns.items():
        clashes = {s: keys for s, some in found.items() if (keys := _differing([_counted(r) for r in some]))}
        differ = sorted(set().union(*clashes.values()))
        for s in found if row.variant and clashes else clashes:
            usual = {} if row.variant else _counted(max(found[s], key=lambda r: (r.finished, r.run_id)))
            for r in found[s]:
                if _counted(r) != usual:
                    told = in_words({k: r.config.get(k, r.train_every if k == PACE else "absent") for k in differ})
                    names[r.run_id] = f"{row.variant}: {told}" if row.variant else told
    out = [_named(r, names[r.run_id]) if r.run_id in names else r for r in runs]
    _say("config", "one name stood for different constants, which have rows of their own", runs, out, notes)
    return out


PACE = "train_every"  #: what follows from a budget and the method's cost; part of a run's id as its constants are


def _counted(run: Run) -> dict[str, str]:
    """What of a run's constants is part of its id."""
    counted = {k: json.dumps(v, sort_keys=True, default=str) for k, v in run.config.items() if k not in run.left_out}
    return counted | {PACE: str(run.train_every)}


def _differing(found: Sequence[dict[str, str]]) -> set[str]:
    return {k for pairs in found for k in pairs.keys() | found[0].keys() if pairs.get(k) != found[0].get(k)}


def _named(run: Run, variant: str) -> Run:
    return replace(run, row=Row(run.row.method, variant, run.row.facts))


def _say(kind: str, text: str, before: Iterable[Run], after: Iterable[Run], notes: list[Note]) -> None:
    named = (b.row for a, b in zip(before, after, strict=True) if a.row != b.row)
    if new := dict.fromkeys(f"{row.method}[{row.variant}]" for row in named):
        notes.append(Note(kind, f"{text}: {', '.join(new)}"))
