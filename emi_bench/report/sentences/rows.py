"""Sentences about methods: margins, who is best, values, growth with memory."""

from __future__ import annotations

from collections.abc import Callable

from emi_bench import reference
from emi_bench.report.axes import TABLE_METRICS, Row, competitors, dataset_title, memory_title
from emi_bench.report.sentences.answers import Answer, Answers, Printed, printed_uncertainty, the_paper
from emi_bench.report.sentences.grades import ROUNDING, Claim, Grade, Part, ahead, near, sized, where, worst


def _others(e: Answers, method: str, metric: str, dataset: str, memory: int) -> dict[str, Answer]:
    found = {m: e.value(m, metric, dataset, memory) for m in competitors() if m != method}
    return {m: v for m, v in found.items() if v is not None}


def _margin(claim: Claim, e: Answers) -> list[Part]:
    parts = []
    for dataset, memory, printed in claim["cells"]:
        cell = (claim["metric"], dataset, memory)
        mine, over = e.value(claim["method"], *cell), claim["over"]
        others = _others(e, claim["method"], claim["metric"], dataset, memory)
        if over == "second":
            # The second best is unknown until every competitor of the sentence has run.
            over = max(others, key=lambda m: others[m].mean) if len(others) == len(competitors()) - 1 else None
        if mine is None or over not in others:
            parts.append(Part(f"{where(dataset, memory)}: – (printed {printed:+.1f})", None))
            continue
        theirs = [the_paper().value(m, *cell) for m in (claim["method"], over)]
        size, grade = sized(e, [(1.0, mine), (-1.0, others[over])], printed, theirs)
        parts.append(Part(f"{where(dataset, memory)}: {size} over {Row(over).title} (printed {printed:+.1f})", grade))
    return parts


def _columns(
    claim: Claim, e: Answers, judge: Callable[[Answer, dict[str, Answer], bool], tuple[str, Grade]]
) -> list[Part]:
    """One method beside all others, column by column; `judge` is told whether all of them are there."""
    parts = []
    for dataset, memory in claim["cells"]:
        mine = e.value(claim["method"], claim["metric"], dataset, memory)
        others = _others(e, claim["method"], claim["metric"], dataset, memory)
        whole = len(others) == len(competitors()) - 1
        text, grade = judge(mine, others, whole) if mine is not None and others else ("–", None)
        parts.append(Part(f"{where(dataset, memory)}: {text}", grade))
    return parts


def _best(claim: Claim, e: Answers) -> list[Part]:
    higher = TABLE_METRICS[claim["metric"]].higher

    def judge(mine: Answer, others: dict[str, Answer], whole: bool) -> tuple[str, Grade]:
        rival = (max if higher else min)(others, key=lambda m: others[m].mean)
        grade = ahead(e, mine, others, 1.0 if higher else -1.0, whole)
        return f"{mine.mean:.1f}, next {Row(rival).title} {others[rival].mean:.1f}", grade

    return _columns(claim, e, judge)


def _value(claim: Claim, e: Answers) -> list[Part]:
    parts = []
    printed_side = isinstance(e, Printed)
    cells = claim["cells" if printed_side or "our_cells" not in claim else "our_cells"]
    for method, dataset, memory, printed in cells:
        v = e.value(method, claim["metric"], dataset, memory)
        named = f"{Row(method).title}, {where(dataset, memory)}"
        if v is None:
            exists = memory in reference.settings()["datasets"][dataset]["memories"]
            lost: Grade = "against" if printed_side and not exists else None
            parts.append(
                Part(f"{named}: {'too few runs' if exists else 'no such column'} (printed {printed:.1f})", lost)
            )
        elif printed_side:
            parts.append(
                Part(f"{named}: {v.mean:.1f} (printed {printed:.1f})", "size" if v.mean == printed else "against")
            )
        else:
            theirs = the_paper().value(method, claim["metric"], dataset, memory) or v
            told = printed_uncertainty([(1.0, theirs)], [(1.0, v)])
            found = e.sum([(1.0, v)])
            text = f"{named}: {v.mean:.1f} [{found.low:.1f}, {found.high:.1f}] (printed {printed:.1f})"
            parts.append(Part(text, "size" if near(found, told, printed, ROUNDING / 2) else "against"))
    return parts


def _growth(claim: Claim, e: Answers) -> list[Part]:
    parts = []
    for method, dataset, start, end, printed in claim["cells"]:
        a, b = (e.value(method, claim["metric"], dataset, m) for m in (end, start))
        named = f"{Row(method).title}, {dataset_title(dataset)} {memory_title(start)} to {memory_title(end)}"
        if a is None or b is None:
            parts.append(Part(f"{named}: – (printed {printed:+.1f})", None))
            continue
        theirs = [the_paper().value(method, claim["metric"], dataset, m) for m in (end, start)]
        size, grade = sized(e, [(1.0, a), (-1.0, b)], printed, theirs)
        parts.append(Part(f"{named}: {size} (printed {printed:+.1f})", grade))
    return parts


def _between(claim: Claim, e: Answers) -> list[Part]:
    """Above some, below all others."""

    def judge(mine: Answer, others: dict[str, Answer], whole: bool) -> tuple[str, Grade]:
        below, rest = ({m: v for m, v in others.items() if (m in claim["above"]) is side} for side in (True, False))
        grades = [ahead(e, mine, some, sign, whole) for some, sign in ((below, 1.0), (rest, -1.0))]
        least = min(rest, key=lambda m: rest[m].mean, default="")
        text = f"{mine.mean:.1f}; " + ", ".join(f"{Row(m).title} {v.mean:.1f}" for m, v in below.items())
        return text + (f"; least of the rest {Row(least).title} {rest[least].mean:.1f}" if least else ""), worst(grades)

    return _columns(claim, e, judge)


def _group(claim: Claim, e: Answers) -> list[Part]:
    """Each of a group below everyone outside."""
    parts = []
    for dataset, memory in claim["cells"]:
        found = {m: e.value(m, claim["metric"], dataset, memory) for m in competitors()}
        inside = {m: v for m, v in found.items() if v and m in claim["members"]}
        outside = {m: v for m, v in found.items() if v and m not in claim["members"]}
        if not inside or not outside:
            parts.append(Part(f"{where(dataset, memory)}: –", None))
            continue
        grade = worst([ahead(e, mine, outside, -1.0, all(found.values())) for mine in inside.values()])
        most = max(inside, key=lambda m: inside[m].mean)
        rival = min(outside, key=lambda m: outside[m].mean)
        text = f"{Row(most).title} {inside[most].mean:.1f}, {Row(rival).title} {outside[rival].mean:.1f}"
        parts.append(Part(f"{where(dataset, memory)}: {text}", grade))
    return parts


CHECKS: dict[str, Callable[[Claim, Answers], list[Part]]] = {
    "margin": _margin, "best": _best, "value": _value, "growth": _growth, "between": _between, "group": _group,
}  # fmt: skip
