"""How a number of a sentence is graded, by the paper's own tables and by our runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from emi_bench.report.axes import dataset_title, memory_title
from emi_bench.report.sentences.answers import Answer, Answers, Printed, Term, printed_uncertainty
from emi_bench.report.statistics import Estimate, independent, signed

#: Of one number: its size agrees, its direction holds, cannot be told, is against the sentence; None: not enough runs.
Grade = Literal["size", "direction", "undecided", "against"] | None
Judgement = Literal[
    "holds", "contradicts itself", "not in a table",  # its own tables
    "size agrees", "direction holds", "undecided", "does not hold here", "not enough runs",  # our runs
    "not about results",
]  # fmt: skip
RULE = (
    "Direction holds: the 95 % interval of the difference lies on the sentence's side of zero. Size agrees: besides, "
    "the printed value lies in the interval of the difference, our uncertainty and that of the paper's ten runs "
    "counted. Undecided: the interval holds zero. Below three shared runs there is no grade."
)
ROUNDING = 0.1  #: of a difference of two printed means
Claim = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """One number or comparison of a sentence."""

    text: str
    grade: Grade


@dataclass(frozen=True)
class Checked:
    """A sentence with what both sources say."""

    id: str
    quote: str
    note: str
    paper: Judgement
    ours: Judgement
    paper_parts: tuple[Part, ...]
    our_parts: tuple[Part, ...]

    @property
    def record(self) -> dict[str, str]:
        numbers = {"paper_numbers": self.paper_parts, "our_numbers": self.our_parts}
        told = {"id": self.id, "quote": self.quote, "its_tables": self.paper, "our_runs": self.ours}
        return told | {k: "; ".join(p.text for p in parts) for k, parts in numbers.items()}


def where(dataset: str, memory: int) -> str:
    return f"{dataset_title(dataset)} {memory_title(memory)}"


def side(difference: Estimate, sign: float = 1.0) -> Grade:
    """On which side of zero an interval lies; a printed difference has no width."""
    low, high = sorted((sign * difference.low, sign * difference.high))
    if not difference.enough:
        return None
    if low == high == 0 and difference.n == 1:
        return "against"  # printed as equal
    return "direction" if low > 0 else "against" if high < 0 else "undecided"


def worst(grades: Sequence[Grade]) -> Grade:
    """Of several that must all hold: one against it settles it, then one that is missing."""
    for bad in ("against", None, "undecided", "direction"):
        if bad in grades:
            return bad
    return "size" if grades else None


def sized(e: Answers, terms: Sequence[Term], printed: float, theirs: Sequence[Answer | None]) -> tuple[str, Grade]:
    """A difference with a printed size: its text and its grade."""
    found = e.sum(terms)
    if isinstance(e, Printed):
        return signed(found.mean), "size" if abs(found.mean - printed) < 0.051 else "against"
    if not found.enough:
        return signed(found.mean), None
    grade = side(found, 1.0 if printed > 0 else -1.0)
    told = [(w, a or o) for (w, o), a in zip(terms, theirs, strict=True)]
    agrees = near(found, printed_uncertainty(told, terms), printed, ROUNDING)
    return f"{signed(found.mean)} {found.interval}", "size" if grade == "direction" and agrees else grade


def near(found: Estimate, theirs: Estimate, printed: float, rounding: float) -> bool:
    """Whether a printed number lies in the interval of ours minus theirs. One that lies in ours alone does: of few runs
    and many, Welch's interval of the difference may be the narrower one."""
    both = independent([(1.0, found), (-1.0, theirs)])
    return abs(found.mean - printed) <= max(found.half, both.half) + rounding


def ahead(e: Answers, mine: Answer, others: Mapping[Any, Answer], sign: float, all_there: bool) -> Grade:
    """Whether one value is ahead of all others; one that is clearly better settles it, else all must be there."""
    grades = [side(e.sum([(1.0, mine), (-1.0, other)]), sign) for other in others.values()]
    grade = worst(grades)
    return grade if all_there or grade == "against" else None
