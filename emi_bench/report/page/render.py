"""The page's parts as plain values for its template."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape

from emi_bench import reference
from emi_bench.report import compare, sentences
from emi_bench.report.axes import ACCURACY, PRINTED, SPREADS, Row, Setting, dataset_title
from emi_bench.report.cells import summarize
from emi_bench.report.evidence import Evidence
from emi_bench.report.model import Section, Table, Value
from emi_bench.report.page.data import PageData
from emi_bench.report.page.pictures import Picture, night_style
from emi_bench.report.plain import plain_value
from emi_bench.report.statistics import signed

#: Of the numbers in a cell the one that the switch is on.
SHOWN = "\n".join(f".results[data-metric={m.key}] .m-{m.key} {{ display: inline; }}" for m in PRINTED) + "\n"


def address(row: Row, setting: Setting, settings: Sequence[Setting]) -> str:
    """A cell's own, `cifar10-500-emi`; the protocol is in it where columns differ in nothing else.

    >>> from emi_bench.report.axes import Setting
    >>> address(Row("emi", "lr=0.1"), s := Setting("cifar10", 5, 500, ()), [s])
    'cifar10-500-emi-lr-0-1'
    """
    alike = [s for s in settings if (s.dataset, s.memory) == (setting.dataset, setting.memory)]
    where = f"{setting.dataset}-{setting.memory}" if len(alike) == 1 else setting.slug
    return re.sub(r"[^a-z0-9]+", "-", f"{where}-{row.method}-{row.variant}".lower()).strip("-")


def _cell(
    evidence: Evidence, data: PageData, row: Row, setting: Setting, values: Mapping[str, Value]
) -> dict[str, Any]:
    cell = evidence.grid.cell(row, setting)
    shown = [
        {"key": key, "text": plain_value(v, marks=False), "best": v.best, "second": v.second,
         "sort": "" if v.summary is None else f"{v.summary.mean:.6f}",
         "n": "" if v.summary is None or v.summary.partial else v.summary.n}
        for key, v in values.items()
    ]  # fmt: skip
    nothing = "unplanned" if row.variant or not cell.expected else "missing"
    state = nothing if not cell.n else "partial" if cell.n < cell.expected else "done"
    where = address(row, setting, evidence.grid.settings)
    return {"id": where, "index": data.index(row, setting), "n": cell.n, "expected": cell.expected, "state": state,
            "values": shown}  # fmt: skip


def results_table(evidence: Evidence, data: PageData, paper: bool) -> dict[str, Any]:
    """One table with all metrics in it; the page switches between them."""
    grid, tables = evidence.grid, evidence.main[paper]
    settings = grid.paper_settings if paper else grid.other_settings
    values = {m: {line.row: line.values for line in table.lines} for m, table in tables.items()}
    nothing = [Value(None)] * len(settings)
    title = "The paper's grid" if paper else "Other settings" if grid.paper_settings else "Results"
    return {
        "title": title,
        "texts": data.texts({m.key: table for m, table in tables.items()}),
        "groups": [(name.plain, len(columns)) for name, columns in tables[ACCURACY].groups],
        "columns": [c.plain for c in tables[ACCURACY].columns],
        "rows": [
            {"title": r.title, "role": r.role,
             "cells": [_cell(evidence, data, r, s, {m.key: by.get(r, nothing)[i] for m, by in values.items()})
                       for i, s in enumerate(settings)]}
            for r in values[ACCURACY] if r
        ],
    }  # fmt: skip


def variant_rows(evidence: Evidence, data: PageData) -> list[dict[str, Any]]:
    """Named changes of a method's constants, each against its default; older versions against the newest. Paired."""
    out, grid = [], evidence.grid
    for setting in grid.settings:
        for row in grid.variants(setting, older=True):
            cell = grid.cell(row, setting)
            summary = summarize(cell, ACCURACY)
            if summary is None:
                continue
            d = evidence.against_default(cell, row, setting)
            out.append({
                "index": data.index(row, setting), "title": row.title, "n": cell.n, "mean": f"{summary.mean:.1f}",
                "where": setting.title,
                "spread": "" if summary.spread != summary.spread else f"{summary.spread:.1f}",
                "delta": "" if d is None else signed(d.mean), "interval": "" if d is None else d.interval,
            })  # fmt: skip
    return out


def render(
    evidence: Evidence, tables: Sequence[Table], pictures: Sequence[Picture], sections: Sequence[Section], source: str
) -> str:
    """The whole page as one string."""
    grid = evidence.grid
    data = PageData(grid)
    results = [results_table(evidence, data, paper) for paper in evidence.main]
    cells = [c for t in results for r in t["rows"] for c in r["cells"]]
    environment = Environment(
        loader=PackageLoader("emi_bench.report.page", ""),
        autoescape=select_autoescape(["html", "j2"]),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    here = files(__package__)
    variants = variant_rows(evidence, data)
    return environment.get_template("index.html.j2").render(
        evidence=evidence,
        compare=compare,
        sentences=sentences,
        style=(here / "page.css").read_text("utf-8") + SHOWN + night_style(pictures),
        script=(here / "page.js").read_text("utf-8"),
        metrics=[(m.key, m.short, m.higher) for m in PRINTED],
        tables=results,
        variants=variants,
        subtitle=_subtitle(evidence),
        date=max((str(r.about.get("finished") or "") for r in grid.runs), default="")[:10],
        version=version("emi-bench"),
        commits=_few(sorted({str(r.about.get("git_sha") or "")[:10] for r in grid.runs} - {""})),
        source=source,
        first=[p for p in pictures if p.first],
        texts_of=lambda table: data.texts({"": table}),
        counts={s: sum(c["state"] == s for c in cells) for s in ("done", "partial", "missing")},
        devices=sorted({str(r.about.get("device", "")) for r in grid.runs} - {""}),
        spread=SPREADS[evidence.spread],
        studies=[t for t in tables if t.kind not in {"variants", *(m.kind for m in PRINTED)}],
        plain_value=plain_value,
        signed=signed,
        compared=[c for c in evidence.compared if c.n],
        metric_titles={m.name: m.kind for m in PRINTED},
        sources=reference.sources(),
        pictures=[p for p in pictures if not p.first],
        sections=sections,
        data=lambda: data.document(),  # when all else has said what it shows
    )


def _few(names: Sequence[str]) -> list[str]:
    return [*names[:3], f"and {len(names) - 3} more"] if len(names) > 3 else list(names)


def _subtitle(evidence: Evidence) -> str:
    """`EMI and 14 others on CIFAR-10, CIFAR-100`"""
    grid, ours = evidence.grid, evidence.grid.focus
    rows = {row.method for s in grid.settings for row in grid.ran(s)}
    if ours is None or not rows:
        return "no runs yet"
    where = ", ".join(dict.fromkeys(dataset_title(s.dataset) for s in grid.settings))
    others = f" and {len(rows) - 1} other{'s' if len(rows) > 2 else ''}" if len(rows) > 1 else ""
    return f"{grid.row(ours.method).title}{others} on {where}"
