"""Which of the paper's sentences a proxy can speak to, why not to the others, and what it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emi_bench import reference
from emi_bench.report.axes import Row, Setting
from emi_bench.report.grid import Grid
from emi_bench.report.sentences import CHECKS, OURS
from emi_bench.report.sentences.answers import Ours
from emi_bench.report.sentences.grades import Part, worst
from emi_bench.report.studies import Study

_SILENT = {
    "cost": "times and bytes of a narrow network on small images are not those of the paper's",
    "value": "it is about an accuracy at full size",
    "growth": "it is about accuracies at full size",
    "fact": "it is not about results",
    "distinct": "it is about how rows of the paper's tables were made",
}
_STUDY = {"gain", "synergy", "best_point", "lowest_point", "decline"}


@dataclass(frozen=True)
class Relevance:
    """Whether a proxy speaks to one of the paper's sentences, how far, or why not."""

    speaks: bool
    why: str


def _studies(claim: Mapping[str, Any]) -> set[str]:
    """Which of the paper's studies a sentence is about: ablation (Table III), alpha (IV), prototypes (V)."""
    if "study" in claim:
        return {str(claim["study"])}
    points = [p for cell in claim.get("cells", []) for p in cell if isinstance(p, dict)]
    points += [claim["both"]] if "both" in claim else []
    return {str(next(iter(p))) for p in points}


def _methods(claim: Mapping[str, Any]) -> set[str]:
    """Those that a sentence names.

    >>> sorted(_methods({"method": "emi", "over": "ocm"})), _methods({"method": "emi", "over": "second"})
    (['emi', 'ocm'], {'emi'})
    """
    listed = [m for key in ("members", "methods", "above") for m in claim.get(key, [])]
    return {*listed, *(str(claim[key]) for key in ("method", "over") if key in claim)} - {"second"}


def reach(
    claim: Mapping[str, Any], columns: Sequence[tuple[str, int]], studies: Mapping[str, tuple[str, int]] | None = None
) -> Relevance:
    """Whether a proxy with these columns (data set, memory) can speak to a sentence of `reference.claims()`.

    `studies` are the columns of those it has of "ablation", "alpha" and "prototypes". The size of a margin is never
    confirmed, only its direction.
    """
    kind, has = str(claim["check"]), studies or {}
    if kind in _SILENT:
        return Relevance(False, _SILENT[kind])
    if kind in _STUDY:
        if lacking := sorted(_studies(claim) - has.keys()):
            return Relevance(False, f"the proxy has no study of {' and '.join(lacking)}")
        home = reference.studies("table3").iloc[0]
        there = all(has[s] == (home["dataset"], int(home["memory"])) for s in _studies(claim))
        return Relevance(True, "direction alone" + ("" if there else ", in another column than the paper's study"))
    if "cells" not in claim:
        return Relevance(True, "direction alone")
    found = [c for c in claim["cells"] if tuple(c[:2]) in set(columns)]
    if not found:
        return Relevance(False, "the proxy has none of its columns")
    part = "" if len(found) == len(claim["cells"]) else f", in {len(found)} of {len(claim['cells'])} columns"
    return Relevance(True, f"direction alone{part}")


@dataclass(frozen=True)
class Said:
    """What a proxy says to a sentence: a verdict on its direction with the numbers, or why it cannot say."""

    quote: str
    verdict: str
    numbers: str


def proxy_says(grid: Grid, studies: Mapping[str, Sequence[Study]], columns: Sequence[Setting]) -> list[Said]:
    """Every sentence of the paper, by runs in the columns of a proxy: in those that have all methods it names."""
    ours = Ours(grid, studies, columns)
    every = [(s.dataset, s.memory) for s in columns]
    has = {
        kind: (s.setting.dataset, s.setting.memory) for kind, some in studies.items() for s in some
        if s.setting in columns
    }  # fmt: skip
    out = []
    for claim in reference.claims():
        named = [(s.dataset, s.memory) for s in columns if all(grid.cell(Row(m), s).n for m in _methods(claim))]
        far = reach(claim, named, has)
        if not far.speaks:
            lacks = reach(claim, every, has).speaks
            why = "the proxy has not run all of its methods in its columns" if lacks else far.why
            out.append(Said(claim["quote"], "cannot say", why))
            continue
        if claim["check"] not in _STUDY and "cells" in claim:
            claim = claim | {"cells": [c for c in claim["cells"] if tuple(c[:2]) in named]}
        parts: list[Part] = CHECKS[claim["check"]](claim, ours)
        grade = worst(["direction" if p.grade == "size" else p.grade for p in parts])
        out.append(Said(claim["quote"], OURS[grade], "; ".join([*(p.text for p in parts), far.why])))
    return out
