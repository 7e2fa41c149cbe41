"""A table as Markdown (also for the terminal) and as tidy CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from emi_bench.report.model import DAGGER, DASH, Record, Table, Value, number
from emi_bench.report.statistics import NAN


def plain_value(value: Value, marks: bool = True) -> str:
    """`**60.0** ± 1.4 † n=7/10`; the second best is `_underscored_`."""
    s = value.summary
    if s is None:
        return DASH
    mean = number(s.mean, value.digits)
    if marks and value.best:
        mean = f"**{mean}**"
    elif marks and value.second:
        mean = f"_{mean}_"
    spread = "" if s.spread != s.spread else f" ± {number(s.spread, value.digits)}"
    return mean + spread + (f" {DAGGER} n={s.n}/{s.expected}" if s.partial else "")


def grid_of(table: Table, marks: bool = True) -> tuple[list[str], list[list[str]]]:
    """Header and body as strings; a column's header carries its group."""
    header = [t.plain for t in table.stub]
    for group, columns in table.groups:
        header += [f"{group.plain} {c.plain}".strip() for c in columns]
    body = [
        [*(t.plain for t in line.labels), *(plain_value(v, marks) for v in line.values)] for line in table.lines
    ]  # fmt: skip
    return header, body


def markdown_table(table: Table) -> str:
    """The table with its caption below, columns aligned so that it also reads in a terminal."""
    header, body = grid_of(table)
    cells = [[c.replace("|", "\\|") for c in row] for row in [header, *body]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    n_stub = len(table.stub)
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in cells]
    rule = "|" + "|".join("-" * (w + 2) if i < n_stub else "-" * (w + 1) + ":" for i, w in enumerate(widths)) + "|"
    return "\n".join([f"**{table.title}**", "", lines[0], rule, *lines[1:], "", table.caption.plain, ""])


def csv_table(table: Table) -> str:
    """One row a cell: its keys, unrounded mean and spread, n, runs expected, best, second."""
    nothing = {"mean": NAN, "spread": NAN, "n": 0, "expected": ""}
    return csv_text([
        dict(value.key)
        | (nothing if (s := value.summary) is None else {"mean": s.mean, "spread": s.spread, "n": s.n, "expected": s.expected})
        | {"best": int(value.best), "second": int(value.second)}
        for line in table.lines for value in line.values
    ])  # fmt: skip


def csv_text(records: Sequence[Record]) -> str:
    """Lines of CSV under the names of their fields; floats in full, NaN as nothing."""
    out = io.StringIO()
    names = list(dict.fromkeys(k for r in records for k in r))
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for r in records:
        writer.writerow(["" if (v := r.get(k, "")) != v else float.__repr__(v) if isinstance(v, float) else v for k in names])
    return out.getvalue()
