"""Sentences about the points of a study, about costs, and about curves."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from emi_bench import reference
from emi_bench.report.axes import Row, competitors
from emi_bench.report.sentences.answers import Answer, Answers, point, the_paper
from emi_bench.report.sentences.grades import Claim, Grade, Part, ahead, side, sized, where, worst
from emi_bench.report.statistics import signed
from emi_bench.report.studies import STUDIES

COINCIDENCE = 2  #: more equal printed means of two independent rows than this are no coincidence


def _gain(claim: Claim, e: Answers) -> list[Part]:
    parts = []
    for start, end, printed in claim["cells"]:
        a, b = point(e, end), point(e, start)
        if a is None or b is None:
            parts.append(Part(f"– (printed {printed:+.1f})", None))
            continue
        size, grade = sized(e, [(1.0, a), (-1.0, b)], printed, [point(the_paper(), end), point(the_paper(), start)])
        parts.append(Part(f"{b.mean:.1f} to {a.mean:.1f}: {size} (printed {printed:+.1f})", grade))
    return parts


def _synergy(claim: Claim, e: Answers) -> list[Part]:
    base, both, *single = (point(e, r) for r in (claim["base"], claim["both"], *claim["parts"]))
    alone = [p for p in single if p is not None]
    if base is None or both is None or len(alone) < len(single):
        return [Part("–", None)]
    # (both - base) - sum(part - base)
    more = e.sum([(1.0, both), (len(alone) - 1.0, base), *((-1.0, p) for p in alone)])
    apart = sum(p.mean - base.mean for p in alone)
    text = f"together {signed(both.mean - base.mean)}, the sum of each alone {signed(apart)}"
    interval = f"; more by {signed(more.mean)} {more.interval}" if more.enough and more.se else ""
    return [Part(text + interval, side(more))]


def _whole(claim: Claim, points: dict[tuple[Any, ...], Answer]) -> bool:
    return tuple(claim["point"]) in points and len(points) >= len(the_paper().points(claim["study"]))


def _best_point(claim: Claim, e: Answers) -> list[Part]:
    points, at = e.points(claim["study"]), tuple(claim["point"])
    if not _whole(claim, points):
        return [Part(f"{len(points)} points", None)]
    best = max(points, key=lambda p: points[p].mean)
    grade = ahead(e, points[at], {p: v for p, v in points.items() if p != at}, 1.0, all_there=True)
    return [Part(f"best at {_at(best)}: {points[best].mean:.1f}; at {_at(at)}: {points[at].mean:.1f}", grade)]


def _lowest_point(claim: Claim, e: Answers) -> list[Part]:
    points, at = e.points(claim["study"]), tuple(claim["point"])
    rest = {p: v for p, v in points.items() if all(p)}
    if not _whole(claim, points):
        return [Part(f"{len(points)} points", None)]
    low = min(rest, key=lambda p: rest[p].mean)
    text = f"{_at(at)}: {points[at].mean:.1f}; lowest with both nonzero {_at(low)}: {rest[low].mean:.1f}"
    return [Part(text, ahead(e, points[at], rest, -1.0, all_there=True))]


def _decline(claim: Claim, e: Answers) -> list[Part]:
    points, at = e.points(claim["study"]), tuple(claim["point"])
    parts = []
    for axis in range(len(at)):
        line = sorted(
            p for p in points if p[:axis] == at[:axis] and p[axis + 1 :] == at[axis + 1 :] and p[axis] >= at[axis]
        )
        name = STUDIES[claim["study"]].keys[axis]
        if len(line) < 3 or line[0] != at:
            parts.append(Part(f"{name}: –", None))
            continue
        grade = ahead(e, points[at], {p: points[p] for p in line[1:]}, 1.0, all_there=True)
        parts.append(Part(f"{name} from {at[axis]}: " + " ".join(f"{points[p].mean:.1f}" for p in line), grade))
    return parts


def _cost(claim: Claim, e: Answers) -> list[Part]:
    found = {m: v for m in claim["order"] if (v := e.cost(m, claim["metric"])) is not None}
    if len(found) < len(claim["order"]):
        return [Part("–", None)]
    text = ", ".join(f"{Row(m).title} {v.mean:.3g}" for m, v in found.items())
    values = list(found.values())
    return [Part(text, worst([side(e.sum([(1.0, more), (-1.0, less)])) for less, more in pairwise(values)]))]


def _distinct(claim: Claim, e: Answers) -> list[Part]:
    equal = seen = 0
    for dataset, d in reference.settings()["datasets"].items():
        for memory in d["memories"]:
            a, b = (e.value(m, claim["metric"], dataset, memory) for m in claim["methods"])
            if a and b:
                seen += 1
                equal += f"{a.mean:.1f}" == f"{b.mean:.1f}"
    grade: Grade = None if not seen else "direction" if equal <= COINCIDENCE else "against"
    return [Part(f"{equal} of {seen} means equal", grade)]


def _curve(claim: Claim, e: Answers) -> list[Part]:
    """Not the best after the first task, the best after every other."""
    parts = []
    for dataset, memory in claim["cells"]:
        mine = e.curve(claim["method"], dataset, memory)
        others = {m: c for m in competitors() if m != claim["method"] and (c := e.curve(m, dataset, memory))}
        if mine is None or not others:
            parts.append(Part(f"{where(dataset, memory)}: –", None))
            continue
        whole = len(others) == len(competitors()) - 1
        grades = [ahead(e, v, {m: c[i] for m, c in others.items()}, 1.0, whole) for i, v in enumerate(mine)]
        best = sum(all(v.mean > c[i].mean for c in others.values()) for i, v in enumerate(mine))
        first: Grade = {"against": "direction", "direction": "against"}.get(str(grades[0]), grades[0])  # type: ignore[assignment]
        text = f"{where(dataset, memory)}: best mean after {best} of {len(mine)} tasks"
        parts.append(Part(text, worst([first, *grades[1:]])))
    return parts


def _at(at: tuple[Any, ...]) -> str:
    return "(" + ", ".join(f"{v:g}" for v in at) + ")"


CHECKS: dict[str, Callable[[Claim, Answers], list[Part]]] = {
    "gain": _gain, "synergy": _synergy, "best_point": _best_point, "lowest_point": _lowest_point, "decline": _decline,
    "cost": _cost, "distinct": _distinct, "curve": _curve,
}  # fmt: skip
