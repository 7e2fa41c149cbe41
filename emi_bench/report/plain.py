"""A table as Markdown, as text for the terminal and as tidy CSV; plain rows as HTML."""

from __future__ import annotations

import csv
import io
import itertools
import textwrap
from collections.abc import Sequence
from html import escape

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
        | (vars(value.summary) if value.summary else nothing)
        | {"best": int(value.best), "second": int(value.second)}
        for line in table.lines for value in line.values
    ])  # fmt: skip


def csv_text(records: Sequence[Record]) -> str:
    """Lines of CSV under the names of their fields; floats in full, NaN as nothing."""
    out = io.StringIO()
    names = list(dict.fromkeys(itertools.chain.from_iterable(records)))
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for r in records:
        writer.writerow(
            ["" if (v := r.get(k, "")) != v else float.__repr__(v) if isinstance(v, float) else v for k in names]
        )
    return out.getvalue()


def html_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Safe markup, wide ones in a box that scrolls; nothing where there are no rows."""

    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(c)}</{tag}>" for c in cells) + "</tr>"

    body = "".join(line(cells, "td") for cells in rows)
    whole = f"<table><thead>{line(titles, 'th')}</thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll">{whole}</div>' if rows else ""


def fitted_table(table: Table, width: int) -> str:
    """For a terminal: a piece for each data set, and as many as it takes for one that is too wide."""
    _, body = grid_of(table, marks=False)
    labels = [" ".join(t.plain for t in line.labels) for line in table.lines]
    stub = max(map(len, labels), default=0)
    out, at = [table.title, ""], len(table.stub)
    for group, columns in table.groups:
        texts = [[c.plain, *(row[at + i] for row in body)] for i, c in enumerate(columns)]
        at += len(columns)
        while texts:
            sizes = [max(map(len, column)) + 2 for column in texts]
            fitting = max(1, sum(stub + used <= width for used in itertools.accumulate(sizes)))
            piece, texts = texts[:fitting], texts[fitting:]
            lines = zip(["", *labels], *piece, strict=True)
            out += [" " * stub + "  " + group.plain] if group.plain else []
            out += [
                label.ljust(stub) + "".join(c.rjust(n) for c, n in zip(line, sizes, strict=False))
                for label, *line in lines
            ]
            out.append("")
    return "\n".join([*out, *textwrap.wrap(table.caption.plain, width), ""])
