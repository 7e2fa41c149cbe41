"""The paper's sentences, recomputed: from its own tables and from our runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from emi_bench import reference
from emi_bench.report.axes import Row, dataset_title, memory_title
from emi_bench.report.evidence import COINCIDENCE, METRICS, STUDIES, Estimate, Evidence, Ours, Printed, competitors
from emi_bench.report.grid import Grid
from emi_bench.report.studies import FLAGS

Verdict = Literal[
    "holds", "contradicts itself", "not in a table", "does not hold here", "not enough runs", "not about results"
]


@dataclass(frozen=True)
class Part:
    """One number or comparison of a claim. `ok` None: cannot be told."""

    text: str
    ok: bool | None


@dataclass(frozen=True)
class Checked:
    """A claim with what both sources say."""

    id: str
    quote: str
    note: str
    paper: Verdict
    ours: Verdict
    paper_parts: tuple[Part, ...]
    our_parts: tuple[Part, ...]


Claim = dict[str, Any]
_UNKNOWN = "–"


def _where(dataset: str, memory: int) -> str:
    return f"{dataset_title(dataset)} {memory_title(memory)}"


def _others(e: Evidence, method: str, metric: str, dataset: str, memory: int) -> dict[str, Estimate]:
    found = {m: e.value(m, metric, dataset, memory) for m in competitors() if m != method}
    return {m: v for m, v in found.items() if v is not None}


def _margin(claim: Claim, e: Evidence) -> list[Part]:
    parts = []
    for dataset, memory, printed in claim["cells"]:
        mine = e.value(claim["method"], claim["metric"], dataset, memory)
        others = _others(e, claim["method"], claim["metric"], dataset, memory)
        over = claim["over"]
        if over == "second":
            # The second best is unknown until every competitor of the sentence has run.
            over = max(others, key=lambda m: others[m].mean) if len(others) == len(competitors()) - 1 else None
        if mine is None or over not in others:
            parts.append(Part(f"{_where(dataset, memory)}: {_UNKNOWN} (printed {printed:+.1f})", None))
            continue
        gap = e.gap(mine, others[over])
        size = f"{gap.mean:+.1f}" + ("" if gap.low == gap.high else f" [{gap.low:+.1f}, {gap.high:+.1f}]")
        text = f"{_where(dataset, memory)}: {size} over {Row(over).title} (printed {printed:+.1f})"
        parts.append(Part(text, e.confirms_gap(printed, gap)))
    return parts


def _best(claim: Claim, e: Evidence) -> list[Part]:
    parts = []
    higher = METRICS[claim["metric"]].higher
    for dataset, memory in claim["cells"]:
        mine = e.value(claim["method"], claim["metric"], dataset, memory)
        others = _others(e, claim["method"], claim["metric"], dataset, memory)
        if mine is None or not others:
            parts.append(Part(f"{_where(dataset, memory)}: {_UNKNOWN}", None))
            continue
        rival = (max if higher else min)(others, key=lambda m: others[m].mean)
        ahead = mine.mean > others[rival].mean if higher else mine.mean < others[rival].mean
        # A rival ahead settles it; being ahead of those that ran does not.
        ok = (None if len(others) < len(competitors()) - 1 else True) if ahead else False
        text = f"{_where(dataset, memory)}: {mine.mean:.1f}, next {Row(rival).title} {others[rival].mean:.1f}"
        parts.append(Part(text, ok))
    return parts


def _value(claim: Claim, e: Evidence) -> list[Part]:
    parts = []
    for method, dataset, memory, printed in claim["cells"]:
        v = e.value(method, claim["metric"], dataset, memory)
        where = f"{Row(method).title}, {_where(dataset, memory)}"
        if v is None:
            exists = memory in reference.settings()["datasets"][dataset]["memories"]
            lost = None if exists else False if isinstance(e, Printed) else None
            parts.append(Part(f"{where}: {'no run' if exists else 'no such column'} (printed {printed:.1f})", lost))
        else:
            parts.append(Part(f"{where}: {v.mean:.1f} (printed {printed:.1f})", e.confirms_value(printed, v)))
    return parts


def _growth(claim: Claim, e: Evidence) -> list[Part]:
    parts = []
    for method, dataset, start, end, printed in claim["cells"]:
        a, b = (e.value(method, claim["metric"], dataset, m) for m in (end, start))
        where = f"{Row(method).title}, {dataset_title(dataset)} {memory_title(start)} to {memory_title(end)}"
        if a is None or b is None:
            parts.append(Part(f"{where}: {_UNKNOWN} (printed {printed:+.1f})", None))
        else:
            gap = e.gap(a, b)
            parts.append(Part(f"{where}: {gap.mean:+.1f} (printed {printed:+.1f})", e.confirms_gap(printed, gap)))
    return parts


def _between(claim: Claim, e: Evidence) -> list[Part]:
    parts = []
    for dataset, memory in claim["cells"]:
        mine = e.value(claim["method"], claim["metric"], dataset, memory)
        others = _others(e, claim["method"], claim["metric"], dataset, memory)
        if mine is None or not others:
            parts.append(Part(f"{_where(dataset, memory)}: {_UNKNOWN}", None))
            continue
        wrong = [m for m, v in others.items() if (v.mean < mine.mean) != (m in claim["above"])]
        ok = False if wrong else True if len(others) == len(competitors()) - 1 else None
        said = f"; not so for {', '.join(Row(m).title for m in wrong)}" if wrong else ""
        parts.append(Part(f"{_where(dataset, memory)}: {mine.mean:.1f}{said}", ok))
    return parts


def _group(claim: Claim, e: Evidence) -> list[Part]:
    parts = []
    for dataset, memory in claim["cells"]:
        found = {m: e.value(m, claim["metric"], dataset, memory) for m in competitors()}
        inside = {m: v for m, v in found.items() if v and m in claim["members"]}
        outside = {m: v for m, v in found.items() if v and m not in claim["members"]}
        if not inside or not outside:
            parts.append(Part(f"{_where(dataset, memory)}: {_UNKNOWN}", None))
            continue
        worst = max(inside, key=lambda m: inside[m].mean)
        rival = min(outside, key=lambda m: outside[m].mean)
        ahead = inside[worst].mean < outside[rival].mean
        ok = False if not ahead else True if all(found.values()) else None
        text = f"{Row(worst).title} {inside[worst].mean:.1f}, {Row(rival).title} {outside[rival].mean:.1f}"
        parts.append(Part(f"{_where(dataset, memory)}: {text}", ok))
    return parts


def _point(e: Evidence, ref: dict[str, Any]) -> Estimate | None:
    ((name, at),) = ref.items()
    kind = bool if STUDIES[name] == FLAGS else int
    return e.points(name).get(tuple(kind(v) for v in (at if isinstance(at, list) else [at])))


def _gain(claim: Claim, e: Evidence) -> list[Part]:
    parts = []
    for start, end, printed in claim["cells"]:
        a, b = _point(e, end), _point(e, start)
        if a is None or b is None:
            parts.append(Part(f"{_UNKNOWN} (printed {printed:+.1f})", None))
            continue
        gap = e.gap(a, b)
        size = f"{gap.mean:+.1f}" + ("" if gap.low == gap.high else f" [{gap.low:+.1f}, {gap.high:+.1f}]")
        parts.append(
            Part(f"{b.mean:.1f} to {a.mean:.1f}: {size} (printed {printed:+.1f})", e.confirms_gap(printed, gap))
        )
    return parts


def _synergy(claim: Claim, e: Evidence) -> list[Part]:
    base, both, *parts = (_point(e, r) for r in (claim["base"], claim["both"], *claim["parts"]))
    if base is None or both is None or any(p is None for p in parts):
        return [Part(_UNKNOWN, None)]
    alone = sum(p.mean - base.mean for p in parts if p is not None)
    together = both.mean - base.mean
    return [Part(f"together {together:+.1f}, the sum of each alone {alone:+.1f}", together > alone)]


def _best_point(claim: Claim, e: Evidence) -> list[Part]:
    points, at = e.points(claim["study"]), tuple(claim["point"])
    if at not in points or len(points) < len(Printed().points(claim["study"])):
        return [Part(f"{len(points)} points", None)]
    best = max(points, key=lambda p: points[p].mean)
    return [Part(f"best at {_at(best)}: {points[best].mean:.1f}; at {_at(at)}: {points[at].mean:.1f}", best == at)]


def _lowest_point(claim: Claim, e: Evidence) -> list[Part]:
    points, at = e.points(claim["study"]), tuple(claim["point"])
    rest = {p: v for p, v in points.items() if all(p)}
    if at not in points or len(points) < len(Printed().points(claim["study"])):
        return [Part(f"{len(points)} points", None)]
    low = min(rest, key=lambda p: rest[p].mean)
    text = f"{_at(at)}: {points[at].mean:.1f}; lowest with both nonzero {_at(low)}: {rest[low].mean:.1f}"
    return [Part(text, points[at].mean < rest[low].mean)]


def _decline(claim: Claim, e: Evidence) -> list[Part]:
    points, at = e.points(claim["study"]), tuple(claim["point"])
    parts = []
    for axis in range(len(at)):
        line = sorted(
            p for p in points if p[:axis] == at[:axis] and p[axis + 1 :] == at[axis + 1 :] and p[axis] >= at[axis]
        )
        name = STUDIES[claim["study"]][axis]
        if len(line) < 3:
            parts.append(Part(f"{name}: {_UNKNOWN}", None))
            continue
        means = [points[p].mean for p in line]
        falls = all(m < means[0] for m in means[1:])
        parts.append(Part(f"{name} from {line[0][axis]}: " + " ".join(f"{m:.1f}" for m in means), falls))
    return parts


def _cost(claim: Claim, e: Evidence) -> list[Part]:
    found = [(m, e.cost(m, claim["metric"])) for m in claim["order"]]
    if any(v is None for _, v in found):
        return [Part(_UNKNOWN, None)]
    means = [v.mean for _, v in found if v is not None]
    text = ", ".join(f"{Row(m).title} {v.mean:.3g}" for m, v in found if v is not None)
    return [Part(text, means == sorted(means) and len(set(means)) == len(means))]


def _distinct(claim: Claim, e: Evidence) -> list[Part]:
    equal = seen = 0
    for dataset, d in reference.settings()["datasets"].items():
        for memory in d["memories"]:
            a, b = (e.value(m, claim["metric"], dataset, memory) for m in claim["methods"])
            if a and b:
                seen += 1
                equal += f"{a.mean:.1f}" == f"{b.mean:.1f}"
    return [Part(f"{equal} of {seen} means equal", equal <= COINCIDENCE if seen else None)]


def _curve(claim: Claim, e: Evidence) -> list[Part]:
    parts = []
    for dataset, memory in claim["cells"]:
        mine = e.curve(claim["method"], dataset, memory)
        others = {m: c for m in competitors() if m != claim["method"] and (c := e.curve(m, dataset, memory))}
        if mine is None or not others:
            parts.append(Part(f"{_where(dataset, memory)}: {_UNKNOWN}", None))
            continue
        ahead = [all(v > c[i] for c in others.values()) for i, v in enumerate(mine)]
        ok = not ahead[0] and all(ahead[1:]) if len(others) == len(competitors()) - 1 else None
        text = f"{_where(dataset, memory)}: best after {sum(ahead)} of {len(ahead)} tasks"
        parts.append(Part(text + (", the first among them" if ahead[0] else ""), ok))
    return parts


CHECKS: dict[str, Callable[[Claim, Evidence], list[Part]]] = {
    "margin": _margin, "best": _best, "value": _value, "growth": _growth, "between": _between, "group": _group,
    "gain": _gain, "synergy": _synergy, "best_point": _best_point, "lowest_point": _lowest_point, "decline": _decline,
    "cost": _cost, "distinct": _distinct, "curve": _curve,
}  # fmt: skip


def _settle(parts: list[Part], wrong: Verdict, unknown: Verdict) -> Verdict:
    if any(p.ok is False for p in parts):
        return wrong
    return unknown if not parts or any(p.ok is None for p in parts) else "holds"


def check_claims(grid: Grid) -> list[Checked]:
    """Every claim, against the paper's tables and against our runs."""
    printed, ours = Printed(), Ours(grid)
    out = []
    for claim in reference.claims():
        note = claim.get("note", "")
        if claim["check"] == "fact":
            part = Part(f"printed: {claim['printed']}; in fact {claim['actual']}", False)
            checked = Checked(claim["id"], claim["quote"], note, "contradicts itself", "not about results", (part,), ())
        else:
            look = CHECKS[claim["check"]]
            paper, mine = look(claim, printed), look(claim, ours)
            checked = Checked(
                claim["id"], claim["quote"], note, _settle(paper, "contradicts itself", "not in a table"),
                _settle(mine, "does not hold here", "not enough runs"), tuple(paper), tuple(mine),
            )  # fmt: skip
        out.append(checked)
    return out


def claims_headline(checked: list[Checked]) -> str:
    """The strip over the claims."""
    paper, ours = Counter(c.paper for c in checked), Counter(c.ours for c in checked)
    return (
        f"Of {len(checked)} sentences, {paper['holds']} hold in the paper's own tables and "
        f"{paper['contradicts itself']} contradict them; in our runs {ours['holds']} hold, "
        f"{ours['does not hold here']} do not, {ours['not enough runs']} wait for runs."
    )


def _at(point: tuple[Any, ...]) -> str:
    return "(" + ", ".join(f"{v:g}" for v in point) + ")"
