"""What sweep files promise: which runs a report is about, and how many there should be.

A run is a sweep's if the sweep names its method, data set, memory and seed, and if its constants and its protocol are
those the sweep gives; what the sweep leaves open has to be the default. A run knows what it changed, so a report needs
neither the sweep's data nor its plugins.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from emi_bench.report.axes import Pairs, Setting, odd_protocol, usual_protocol
from emi_bench.report.runs import Run
from emi_bench.run.spec import MODERN, Protocol, check_keys
from emi_bench.sweep.grammar import RunGroup, read_grammar


def has(part: RunGroup, run: Run) -> bool:
    """Whether a run of this part may differ from this one in the seed alone."""
    return (
        run.row.method == part.method
        and is_at(part, run.source, run.setting.memory, run.setting.n_tasks, run.setting.protocol)
        and ("n_tasks" in part.protocol or "protocol.n_tasks" not in run.changed)
        and run.constants.keys() <= part.constants.keys()
        # No value stands for the default.
        and all(
            _equal(run.config.get(k), v) or (v is None and k not in run.changed)
            for k, v in part.constants.items()
            if k not in run.left_out
        )
    )


def is_at(part: RunGroup, source: str, memory: int, n_tasks: int, protocol: Pairs) -> bool:
    """Whether the part runs in this column. Methods without memory have 0, whatever the sweep says."""
    if not _same_data(part.dataset, source) or not (memory == 0 or memory in part.memories):
        return False
    preset = MODERN if part.protocol.get("preset") == "modern" else {}
    named = preset | {k: v for k, v in part.protocol.items() if k != "n_tasks"}
    given = usual_protocol() | dict(protocol)
    return (
        n_tasks == (part.protocol.get("n_tasks") or n_tasks)
        and all(_equal(given.get(k), v) for k, v in named.items())
        and odd_protocol(protocol).keys() <= named.keys()
    )


@dataclass(frozen=True)
class Planned:
    """The parts of some sweeps. Without any, everything in the store is meant."""

    parts: tuple[RunGroup, ...] = ()
    tables: frozenset[int] = frozenset()  #: of the paper's; all where none is named
    figures: frozenset[str] = frozenset()  #: of the paper's, all where none is named

    def wants(self, run: Run) -> bool:
        """Whether the run is one of these sweeps."""
        return not self.parts or any(run.seed in seeds for seeds in self.seeds([run]))

    def seeds(self, runs: Iterable[Run]) -> list[frozenset[int]]:
        """The seeds that each part asks for in the cell of these runs."""
        return [frozenset(p.seeds) for p in self.parts if any(has(p, run) for run in runs)]

    def seeds_at(self, method: str, setting: Setting, source: str) -> list[frozenset[int]]:
        """The same for a cell that has no runs yet."""
        return [frozenset(p.seeds) for p in self._at(setting, source) if p.method == method]

    def methods(self, setting: Setting, source: str) -> list[str]:
        """Methods that have a row in this column also before they have run."""
        return list(dict.fromkeys(p.method for p in self._at(setting, source)))

    def memories(self, setting: Setting, source: str) -> set[int]:
        """Memory sizes that have a column beside this one also before they have run."""
        near = [p for p in self.parts if is_at(p, source, 0, setting.n_tasks, setting.protocol)]
        return {m for p in near for m in p.memories if m}

    def _at(self, setting: Setting, source: str) -> list[RunGroup]:
        return [p for p in self.parts if is_at(p, source, setting.memory, setting.n_tasks, setting.protocol)]


def read_planned(paths: Sequence[str | Path]) -> Planned:
    """The sweeps' parts and `report:` entries."""
    sweeps = [read_grammar(path)[0] for path in paths]
    return Planned(
        tuple(replace(part, protocol=_as_stored(part.protocol)) for sweep in sweeps for part in sweep.parts()),
        frozenset(t for sweep in sweeps for t in sweep.report.tables),
        frozenset(f for sweep in sweeps for f in sweep.report.figures),
    )


def _as_stored(given: dict[str, Any]) -> dict[str, Any]:
    """Protocol values as a run has them.

    >>> _as_stored({"batch": 10, "budget": "realtime"})
    {'batch': 10, 'budget': 1.0}
    """
    stored = check_keys(Protocol, given, "protocol").model_dump(mode="json")
    return {key: stored[key] for key in given if key != "anytime"}  # who watches a run is no part of it


def _same_data(planned: str, source: str) -> bool:
    """A user's own file is known by its kind and name: the results may come from a machine where it lies elsewhere.

    >>> _same_data("npz:birds.npz", "npz:/data/birds.npz"), _same_data("birds", "npz:/data/birds.npz")
    (True, False)
    """
    kind, colon, path = planned.partition(":")
    its_kind, its_colon, its_path = source.partition(":")
    if not colon or not its_colon:
        return planned == source
    return (kind, Path(path).name) == (its_kind, Path(its_path).name)


def _equal(ours: Any, told: Any) -> bool:
    """YAML reads 1e-3 as a text, and has no tuples.

    >>> _equal(0.001, "1e-3"), _equal((1, 2), [1, 2]), _equal(True, False)
    (True, True, False)
    """
    if isinstance(told, str) and isinstance(ours, str) and ours.startswith("[["):  # tasks, in whatever order inside
        mine, its = ([set(map(str, group)) for group in json.loads(text)] for text in (ours, told))
        return mine == its
    if isinstance(told, str) and isinstance(ours, int | float):
        try:
            return float(told) == ours
        except ValueError:
            return False
    return bool((list(ours) if isinstance(ours, tuple) else ours) == told)
