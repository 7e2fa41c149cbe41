"""What sweep files promise, read as plain YAML: which runs a report is about, and how many there should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from emi_bench.errors import UserError


@dataclass(frozen=True)
class Planned:
    """The union of some sweeps. Without any, everything in the store is meant."""

    methods: tuple[str, ...] = ()
    memories: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  #: by data set
    seeds: frozenset[int] = frozenset()
    tables: frozenset[str] = frozenset()

    @property
    def expected(self) -> int | None:
        return len(self.seeds) or None

    def select(self, runs: pd.DataFrame) -> pd.DataFrame:
        """The runs these sweeps are about: their methods, data sets, memories and seeds."""
        if not self.methods or not len(runs):
            return runs
        keep = runs["method"].isin(self.methods) & runs["seed"].isin(self.seeds)
        fits = [
            dataset not in self.memories or memory == 0 or memory in self.memories[dataset]
            for dataset, memory in zip(runs["dataset"], runs["memory"], strict=True)
        ]
        # A data set given by its files (npz:PATH) has a name of its own in the results: names cannot exclude it.
        if all(":" not in d for d in self.memories):
            keep &= runs["dataset"].isin(list(self.memories))
        return runs[keep & pd.Series(fits, index=runs.index)]


def _list(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, list) else [value]


def read_planned(paths: Sequence[str | Path]) -> Planned:
    """The sweeps' methods, settings, seeds and `report:` entries. Full validation is `emi-bench plan`'s."""
    methods: dict[str, None] = {}
    memories: dict[str, tuple[int, ...]] = {}
    seeds: set[int] = set()
    tables: set[str] = set()
    for path in map(Path, paths):
        if not path.is_file():
            raise UserError(f"no such sweep: {path}", hint="give a YAML file, for example sweeps/table1.yaml")
        try:
            sweep = yaml.safe_load(path.read_text("utf-8"))
            methods |= {(m if isinstance(m, str) else m["name"]): None for m in sweep["methods"]}
            for s in sweep["settings"]:
                sizes = {*memories.get(s["dataset"], ()), *(int(m) for m in _list(s["memory"]))}
                memories[s["dataset"]] = tuple(sorted(sizes))
            told = sweep["seeds"]
            seeds |= set(range(told)) if isinstance(told, int) else set(map(int, told))
            tables |= {f"table{t}" for t in _list((sweep.get("report") or {}).get("tables"))}
        except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError) as e:
            raise UserError(f"{path} is not a sweep: {e!r}", hint=f"emi-bench plan {path} says what is wrong") from e
    return Planned(tuple(methods), memories, frozenset(seeds), frozenset(tables))
