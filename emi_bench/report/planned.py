"""What sweep files promise, read as plain YAML: which runs a report is about, and how many there should be.

A run is a sweep's if the sweep names its method, data set, memory and seed, and if its constants and its protocol are
those the sweep gives; what the sweep leaves open has to be the default. The default of a constant need not be known for
that: a run's command sets all that differs from it. So a report needs neither the sweep's data nor its plugins.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from emi_bench.errors import UserError
from emi_bench.report.axes import Protocol, Setting, odd_protocol, usual_protocol
from emi_bench.report.runs import COSMETIC, Run, overrides

Constants = Mapping[str, Any]
#: The paper's figures, as a sweep names them.
FIGURES = ("incremental", "kde", "tsne")


@dataclass(frozen=True)
class Part:
    """One method of a sweep in one of its settings."""

    method: str
    configs: tuple[Constants, ...]  #: the constants each variant names
    dataset: str
    memories: frozenset[int]
    protocol: Constants
    seeds: frozenset[int]

    def has(self, run: Run) -> bool:
        """Whether a run of this part may differ from this one in the seed alone."""
        return (
            run.method == self.method
            and self.is_at(run.source, run.memory, run.n_tasks, run.protocol)
            and ("n_tasks" in self.protocol or "n_tasks" not in (overrides(run.command, "protocol.") or {}))
            and any(_same_constants(named, run) for named in self.configs)
        )

    def is_at(self, source: str, memory: int, n_tasks: int, protocol: Protocol) -> bool:
        """Whether the part runs in this column. Methods without memory have 0, whatever the sweep says."""
        if not _same_data(self.dataset, source) or not (memory == 0 or memory in self.memories):
            return False
        named = {k: v for k, v in self.protocol.items() if k != "n_tasks"}
        given = usual_protocol() | dict(protocol)
        return (
            n_tasks == (self.protocol.get("n_tasks") or n_tasks)
            and all(_equal(given.get(k), v) for k, v in named.items())
            and odd_protocol(protocol).keys() <= named.keys()
        )


@dataclass(frozen=True)
class Planned:
    """The parts of some sweeps. Without any, everything in the store is meant."""

    parts: tuple[Part, ...] = ()
    tables: frozenset[str] = frozenset()  #: of the paper's, table1 to table6; all where none is named
    figures: frozenset[str] = frozenset()  #: of the paper's, see FIGURES; all where none is named

    def wants(self, run: Run) -> bool:
        """Whether the run is one of these sweeps."""
        return not self.parts or any(run.seed in seeds for seeds in self.seeds([run]))

    def seeds(self, runs: Iterable[Run]) -> list[frozenset[int]]:
        """The seeds that each part asks for in the cell of these runs."""
        return [p.seeds for p in self.parts if any(p.has(run) for run in runs)]

    def seeds_at(self, method: str, setting: Setting, source: str) -> list[frozenset[int]]:
        """The same for a cell that has no runs yet."""
        return [p.seeds for p in self._at(setting, source) if p.method == method]

    def methods(self, setting: Setting, source: str) -> list[str]:
        """Methods that have a row in this column also before they have run."""
        return list(dict.fromkeys(p.method for p in self._at(setting, source)))

    def memories(self, setting: Setting, source: str) -> set[int]:
        """Memory sizes that have a column beside this one also before they have run."""
        near = [p for p in self.parts if p.is_at(source, 0, setting.n_tasks, setting.protocol)]
        return {m for p in near for m in p.memories if m}

    def _at(self, setting: Setting, source: str) -> list[Part]:
        return [p for p in self.parts if p.is_at(source, setting.memory, setting.n_tasks, setting.protocol)]


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


def _same_constants(named: Constants, run: Run) -> bool:
    """Whether the run has the named constants and the defaults of all others."""
    changed = overrides(run.command)
    told = {k: v for k, v in named.items() if k not in COSMETIC}
    if changed is not None and not changed.keys() <= told.keys():
        return False
    # No value stands for the default.
    return all(_equal(run.config.get(k), v) or (v is None and k not in (changed or {})) for k, v in told.items())


def _equal(ours: Any, told: Any) -> bool:
    """YAML reads 1e-3 as a text.

    >>> _equal(0.001, "1e-3"), _equal("sum", "sum"), _equal(True, False)
    (True, True, False)
    """
    if isinstance(told, str) and isinstance(ours, int | float):
        try:
            return float(told) == ours
        except ValueError:
            return False
    if isinstance(told, list) and isinstance(ours, str):  # classes of tasks, which a run has as JSON
        return [set(map(str, group)) for group in json.loads(ours)] == [set(map(str, group)) for group in told]
    return bool(ours == told)


def _list(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, list) else [value]


def _configs(entry: Mapping[str, Any]) -> tuple[Constants, ...]:
    """The constants of each variant of a method's entry, over those of the entry itself."""
    grid = entry.get("grid") or {}
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())] if grid else []
    variants = [dict(v or {}) for v in (entry.get("variants") or {}).values()]
    return tuple({**(entry.get("config") or {}), **named} for named in [*variants, *points] or [{}])


def _known_figure(name: str) -> str:
    if name not in FIGURES:
        raise ValueError(f"no figure {name!r}, choose from {', '.join(FIGURES)}")
    return name


def _parts(sweep: Mapping[str, Any]) -> list[Part]:
    told = sweep["seeds"]
    seeds = frozenset(range(told) if isinstance(told, int) else map(int, told))
    entries = [{"name": m} if isinstance(m, str) else m for m in sweep["methods"]]
    return [
        Part(
            entry["name"],
            _configs(entry),
            s["dataset"],
            frozenset(int(m) for m in _list(s["memory"])),
            {**(sweep.get("protocol") or {}), **(s.get("protocol") or {})},
            seeds,
        )
        for s in sweep["settings"]
        for entry in entries
    ]


def read_planned(paths: Sequence[str | Path]) -> Planned:
    """The sweeps' parts and `report:` entries. Full validation is `emi-bench plan`'s."""
    parts: list[Part] = []
    tables: set[str] = set()
    figures: set[str] = set()
    for path in map(Path, paths):
        if not path.is_file():
            raise UserError(f"no such sweep: {path}", hint="give a YAML file, or a name of `emi-bench sweeps`")
        try:
            sweep = yaml.safe_load(path.read_text("utf-8"))
            parts += _parts(sweep)
            told = sweep.get("report") or {}
            tables |= {f"table{t}" for t in _list(told.get("tables"))}
            figures |= {_known_figure(f) for f in _list(told.get("figures"))}
        except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError) as e:
            raise UserError(f"{path} is not a sweep: {e!r}", hint=f"emi-bench plan {path} says what is wrong") from e
    return Planned(tuple(parts), frozenset(tables), frozenset(figures))
