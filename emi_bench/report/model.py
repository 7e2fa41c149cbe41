"""What a report is made of before it becomes LaTeX, CSV or HTML: tables with marks, figures' data, sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from emi_bench.report.axes import Kind, Row
from emi_bench.report.cells import Summary

DASH = "–"
DAGGER = "†"
TIE = 1e-9  #: two means this close are equal: sums of the same numbers in another order
Record = Mapping[str, Any]  #: a line of a CSV file
#: The paper's tables by number.
NUMBERED: dict[int, Kind] = {
    1: "accuracy", 2: "forgetting", 3: "ablation", 4: "alpha", 5: "prototypes", 6: "efficiency",
}  # fmt: skip


@dataclass(frozen=True)
class Text:
    """A label in two spellings. `latex` is used as it stands; left empty, `plain` is escaped."""

    plain: str
    latex: str = ""


@dataclass(frozen=True)
class Value:
    """One number with its marks; `summary` None is a missing cell. `key` says which cell it is, for CSV and HTML."""

    summary: Summary | None
    key: tuple[tuple[str, str | int | float], ...] = ()
    best: bool = False
    second: bool = False
    digits: int = 1


@dataclass(frozen=True)
class Line:
    """A row: leading labels, then values. `compete` False keeps it out of bold and underline."""

    labels: tuple[Text, ...]
    values: tuple[Value, ...]
    cite: str = ""
    compete: bool = True
    row: Row | None = None  #: in a table of methods


@dataclass(frozen=True)
class Table:
    """Blocks of lines under grouped columns, a rule between blocks. `number`: of the paper's table, on its own grid."""

    name: str
    kind: Kind
    number: int | None
    title: str
    stub: tuple[Text, ...]
    groups: tuple[tuple[Text, tuple[Text, ...]], ...]
    blocks: tuple[tuple[Line, ...], ...]
    caption: Text = Text("")

    @property
    def lines(self) -> list[Line]:
        return [line for block in self.blocks for line in block]

    @property
    def columns(self) -> list[Text]:
        return [c for _, columns in self.groups for c in columns]

    @property
    def summaries(self) -> list[Summary]:
        return [v.summary for line in self.lines for v in line.values if v.summary is not None]

    @property
    def has_gaps(self) -> bool:
        return any(v.summary is None for line in self.lines for v in line.values)


@dataclass(frozen=True)
class Section:
    """A part of the page with an address of its own. `html` is safe markup; `files` (name -> text) are written beside
    the page. `first`: open, right below the results."""

    name: str
    title: str
    html: str
    files: Mapping[str, str] = field(default_factory=dict)
    first: bool = False


def mark_best(blocks: Sequence[Sequence[Line]], higher: bool, across: bool = False) -> tuple[tuple[Line, ...], ...]:
    """Bold for the best of each column and a mark for the second, on unrounded means, ties together.

    `across` compares over the whole table instead (parameter studies). A partial cell has no mark: what the missing
    runs would say is open. With fewer than two competitors nobody wins.
    """
    lines = [line for block in blocks for line in block]
    width = max((len(line.values) for line in lines), default=0)
    best: dict[int, list[float]] = {}
    for pool in [range(width)] if across else [[c] for c in range(width)]:
        values = (line.values[c] for line in lines if line.compete for c in pool if c < len(line.values))
        found = [v.summary for v in values if v.summary is not None]
        ranked = sorted((s.mean for s in found if not s.partial), reverse=higher)
        if ranked and len(found) > 1:
            second = [m for m in ranked if abs(m - ranked[0]) > TIE]
            best |= {c: [ranked[0], *second[:1]] for c in pool}

    def marked(value: Value, column: int) -> Value:
        if value.summary is None or value.summary.partial or column not in best:
            return value
        hit = [abs(value.summary.mean - b) <= TIE for b in best[column]]
        return replace(value, best=hit[0], second=any(hit[1:]))

    return tuple(
        tuple(
            replace(line, values=tuple(marked(v, c) for c, v in enumerate(line.values))) if line.compete else line
            for line in block
        )
        for block in blocks
    )


def number(x: float, digits: int = 1) -> str:
    """One decimal as printed; no negative zero.

    >>> number(-0.04), number(32.456)
    ('0.0', '32.5')
    """
    text = f"{x:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text
