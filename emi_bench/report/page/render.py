"""The page's parts as plain values for its template."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape

from emi_bench import reference
from emi_bench.report.axes import (
    ACCURACY,
    FORGETTING,
    FORGETTING_RAPTOR,
    INCREMENTAL,
    SPREADS,
    Metric,
    Row,
    Setting,
    Spread,
    apart,
    dataset_title,
    memory_title,
)
from emi_bench.report.claims import Checked, claims_headline
from emi_bench.report.compare import RULE, Comparison, by_method, headline
from emi_bench.report.grid import Grid, summarize
from emi_bench.report.page.data import PageData
from emi_bench.report.plain import plain_value
from emi_bench.report.statistics import Difference, Overall, contrast
from emi_bench.report.table import Table
from emi_bench.report.tables import method_table

METRICS: tuple[tuple[str, str, Metric], ...] = (
    ("acc", "Accuracy", ACCURACY),
    ("forg", "Forgetting", FORGETTING),
    ("raptor", "Forgetting (T tasks)", FORGETTING_RAPTOR),
    ("inc", "Incremental", INCREMENTAL),
)

#: Tables whose numbers the switchable results table already shows.
MAIN_TABLES = ("table1", "table2", "incremental", "accuracy", "forgetting", "incremental_accuracy")


@dataclass(frozen=True)
class Picture:
    """A figure for the page: small PNG bytes."""

    name: str
    title: str
    caption: str
    png: bytes

    @property
    def src(self) -> str:
        return "data:image/png;base64," + base64.b64encode(self.png).decode("ascii")


@dataclass(frozen=True)
class Content:
    """Everything the page shows besides the grid itself."""

    tables: Sequence[Table]
    compared: Sequence[Comparison]
    differences: Sequence[Difference]
    overall: Sequence[Overall]
    claims: Sequence[Checked]
    pictures: Sequence[Picture]
    spread: Spread = "std"


def _cell(
    grid: Grid, data: PageData, row: Row, setting: Setting, marks: Mapping[str, Any], spread: Spread
) -> dict[str, Any]:
    cell = grid.cell(row, setting)
    shown = []
    for key, _, metric in METRICS:
        summary = summarize(cell, metric, spread)
        value = marks[key].get((row, setting))
        shown.append({
            "key": key, "text": plain_value(value, marks=False) if value else "–", "best": bool(value and value.best),
            "second": bool(value and value.second), "sort": "" if summary is None else f"{summary.mean:.6f}",
        })  # fmt: skip
    state = "missing" if not cell.n else "partial" if cell.n < cell.expected else "done"
    return {"index": data.index(row, setting), "n": cell.n, "expected": cell.expected, "state": state, "values": shown}


def results_table(
    grid: Grid, data: PageData, settings: Sequence[Setting], title: str, whole: bool, spread: Spread
) -> dict[str, Any]:
    """One table with all metrics in it; the page switches between them."""
    rows = grid.rows(settings, whole)
    marks: dict[str, Any] = {}
    for key, _, metric in METRICS:
        table = method_table(grid, settings, metric, spread, name=key, title=title, whole=whole)
        marks[key] = {}
        for line in table.lines:
            for setting, value in zip(settings, line.values, strict=True):
                where = dict(value.key)
                marks[key][Row(str(where["method"]), str(where["variant"])), setting] = value
    groups: list[list[Any]] = []
    differs = apart(settings)
    for s in settings:
        name = f"{dataset_title(s.dataset)} ({s.n_tasks} tasks{', ' if differs[s] else ''}{differs[s]})"
        if groups and groups[-1][0] == name and groups[-1][2] == s.protocol:
            groups[-1][1] += 1
        else:
            groups.append([name, 1, s.protocol])
    return {
        "title": title,
        "groups": [(name, span) for name, span, _ in groups],
        "columns": [memory_title(s.memory) for s in settings],
        "rows": [
            {"title": r.title, "role": r.role, "cells": [_cell(grid, data, r, s, marks, spread) for s in settings]}
            for r in rows
        ],
    }


def variant_rows(grid: Grid, data: PageData) -> list[dict[str, Any]]:
    """Named changes of a method's constants, each against its default, paired."""
    out = []
    for setting in grid.settings:
        for row in grid.variants(setting):
            cell, base = grid.cell(row, setting), grid.cell(Row(row.method), setting, spare=True)
            summary = summarize(cell, ACCURACY)
            if summary is None:
                continue
            d = contrast(cell.by_seed(ACCURACY), base.by_seed(ACCURACY)) if base.n else None
            out.append({
                "index": data.index(row, setting), "title": row.title, "n": cell.n, "mean": f"{summary.mean:.1f}",
                "where": f"{dataset_title(setting.dataset)} {memory_title(setting.memory)}",
                "spread": "" if summary.spread != summary.spread else f"{summary.spread:.1f}",
                "delta": "" if d is None else f"{d.mean:+.1f}",
                "interval": "" if d is None or d.low != d.low else f"[{d.low:+.1f}, {d.high:+.1f}]",
            })  # fmt: skip
    return out


def render(grid: Grid, content: Content) -> str:
    """The whole page as one string."""
    data = PageData(grid)
    spread = content.spread
    tables = []
    if grid.paper_settings:
        tables.append(results_table(grid, data, grid.paper_settings, "The paper's grid", True, spread))
    if grid.other_settings:
        title = "Other settings" if grid.paper_settings else "Results"
        tables.append(results_table(grid, data, grid.other_settings, title, False, spread))
    cells = [c for t in tables for r in t["rows"] for c in r["cells"]]
    environment = Environment(
        loader=PackageLoader("emi_bench.report.page", ""),
        autoescape=select_autoescape(["html", "j2"]),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    here = files(__package__)
    variants = variant_rows(grid, data)
    return environment.get_template("index.html.j2").render(
        style=(here / "page.css").read_text("utf-8"),
        script=(here / "page.js").read_text("utf-8"),
        metrics=[(key, title, metric.higher) for key, title, metric in METRICS],
        tables=tables,
        variants=variants,
        counts={s: sum(c["state"] == s for c in cells) for s in ("done", "partial", "missing")},
        n_runs=len(grid.runs),
        devices=sorted({str(r.facts.get("device", "")) for r in grid.runs} - {""}),
        notes=grid.notes,
        spread=SPREADS[spread],
        studies=[t for t in content.tables if t.name not in MAIN_TABLES],
        plain_value=plain_value,
        compared=[c for c in content.compared if c.n],
        n_compared=len(content.compared),
        headline=headline(list(content.compared)) if content.compared else "",
        by_method={Row(m).title: v for m, v in by_method(content.compared).items()},
        rule=RULE,
        sources=reference.sources(),
        differences=content.differences,
        overall=content.overall,
        claims=content.claims,
        claims_headline=claims_headline(list(content.claims)),
        pictures=content.pictures,
        dataset_title=dataset_title,
        memory_title=memory_title,
        data=data.document(),
    )
