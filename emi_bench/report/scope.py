"""Which of the paper's sentences a proxy can speak to, and why not to the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emi_bench import reference

_SILENT = {
    "cost": "times and bytes of a narrow network on small images are not those of the paper's",
    "value": "it is about an accuracy at full size",
    "growth": "it is about accuracies at full size",
    "fact": "it is not about results",
}
_STUDY = {"gain", "synergy", "best_point", "lowest_point", "decline"}


@dataclass(frozen=True)
class Scope:
    """Whether a proxy speaks to one of the paper's sentences, and why not."""

    claim: str
    speaks: bool
    why: str


def _studies(claim: Mapping[str, Any]) -> set[str]:
    """Which of the paper's studies a sentence is about: ablation (Table III), alpha (IV), prototypes (V)."""
    if "study" in claim:
        return {str(claim["study"])}
    points = [p for cell in claim.get("cells", []) for p in cell if isinstance(p, dict)]
    points += [claim["both"]] if "both" in claim else []
    return {str(next(iter(p))) for p in points}


def scope(
    claim: Mapping[str, Any], columns: Sequence[tuple[str, int]], studies: Mapping[str, tuple[str, int]] | None = None
) -> Scope:
    """Whether a proxy with these columns (data set, memory) can speak to a sentence of `reference.claims()`.

    `studies` are the columns of those it has of "ablation", "alpha" and "prototypes". The size of a margin is never
    confirmed, only its direction.
    """
    kind, name, has = str(claim["check"]), str(claim["id"]), studies or {}
    if kind in _SILENT:
        return Scope(name, False, _SILENT[kind])
    if kind in _STUDY:
        if lacking := sorted(_studies(claim) - has.keys()):
            return Scope(name, False, f"the proxy has no study of {' and '.join(lacking)}")
        home = reference.studies("table3").iloc[0]
        there = all(has[s] == (home["dataset"], int(home["memory"])) for s in _studies(claim))
        return Scope(name, True, "direction alone" + ("" if there else ", in another column than the paper's study"))
    if "cells" not in claim:
        return Scope(name, True, "direction alone")
    found = [c for c in claim["cells"] if tuple(c[:2]) in set(columns)]
    if not found:
        return Scope(name, False, "the proxy has none of its columns")
    part = "" if len(found) == len(claim["cells"]) else f", in {len(found)} of {len(claim['cells'])} columns"
    return Scope(name, True, f"direction alone{part}")
