"""Sections of the page on what a single number at the end does not show: the way there, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from emi_bench.anytime import summary
from emi_bench.report.axes import Setting, dataset_title, memory_title
from emi_bench.report.evidence import Evidence
from emi_bench.report.model import Record, Section
from emi_bench.report.plain import csv_text

COLUMNS = {
    "end": "End",
    "aaa": "AAA",
    "wc_acc": "WC-ACC",
    "stability_gap": "Stability gap",
    "recency_share": "Recency share",
}


def while_the_stream_runs(evidence: Evidence) -> Section | None:
    """End accuracy, average anytime accuracy and worst case beside each other."""
    records: list[Record] = []
    for setting, rows in evidence.watched.items():
        for row, runs in rows.items():
            found = [summary(points) for points in runs]
            record: dict[str, Any] = {
                "dataset": setting.dataset,
                "memory": setting.memory,
                "method": row.title,
                "n": len(runs),
            }
            for key in COLUMNS:
                values = 100 * np.array([f[key] for f in found])
                record |= {
                    key: values.mean().item(),
                    f"{key}_std": values.std(ddof=1).item() if len(runs) > 1 else None,
                }
            records.append(record)
    if not records:
        return None
    body = [
        [f"{dataset_title(str(r['dataset']))}, {memory_title(int(r['memory']))}", str(r["method"]), str(r["n"])]
        + [_value(r[key], r[f"{key}_std"]) for key in COLUMNS]
        for r in records
    ]
    words = (
        "In percent, mean ± sample standard deviation over the runs, on the images of the curve. AAA: the mean over "
        "the stream. WC-ACC: the newest task now, every other at its worst since it was learned (low on few images). "
        "Stability gap: the drop right after a task begins. Recency share: predictions that fall into the newest task."
    )
    html = _table(["", "Method", "Runs", *COLUMNS.values()], body) + f"<p>{escape(words)}</p>"
    return Section("anytime", "While the stream runs", html, {"tables/anytime.csv": csv_text(records)})


def equal_compute(evidence: Evidence) -> Section | None:
    """Accuracy beside cost, where the stream does not wait for a method or all have the same budget."""
    grid = evidence.grid
    records: list[Record] = []
    for setting in grid.settings:
        budget = dict(setting.protocol).get("budget")
        for row in grid.rows([setting], variants=True) if budget is not None else ():
            runs = grid.cell(row, setting).runs
            if not runs:
                continue
            accuracies = 100 * np.array([r.values["average_accuracy"] for r in runs])
            told = runs[0].about
            records.append(
                {"dataset": setting.dataset, "memory": setting.memory, "budget": budget, "method": row.title,
                 "cost": told.get("cost"), "train_every": told.get("train_every"), "n": len(runs),
                 "mean": accuracies.mean().item(), "std": accuracies.std(ddof=1).item() if len(runs) > 1 else None}
            )  # fmt: skip
    if not records:
        return None
    records.sort(key=lambda r: (str(r["dataset"]), int(r["memory"]), float(r["budget"]), -float(r["mean"])))
    body = [
        [
            f"{dataset_title(str(r['dataset']))}, {memory_title(int(r['memory']))}",
            f"{float(r['budget']):g}",
            str(r["method"]),
            "–" if r["cost"] is None else f"{float(r['cost']):.1f}",
            f"{float(r['train_every'] or 1):g}",
            _value(r["mean"], r["std"]),
        ]
        for r in records
    ]
    words = (
        "Budget and cost of a batch in steps of ER. Who costs more than the budget trains on every so many-th batch "
        "only and never sees the others. Accuracy in percent at the end."
    )
    head = ["", "Budget", "Method", "Cost", "Trains on every", "Accuracy"]
    html = _table(head, body) + f"<p>{escape(words)}</p>"
    return Section("budget", "At equal compute", html, {"tables/budget.csv": csv_text(records)})


def short_stream_words(settings: Sequence[Setting], methods: set[str]) -> str:
    """Why the newest task of the mutual-information methods is low on digits: so that nobody takes it for a mistake."""
    if not methods & {"ocm", "onpro", "emi"} or not any(s.dataset == "digits" for s in settings):
        return ""
    return (
        " The newest task of OCM, OnPro and EMI is low on digits because their classifier meets new classes only "
        "through the memory and the stream is short (40 to 70 steps a task; with 210 EMI's newest task reaches 96 %), "
        "as with the original programs."
    )


def _value(mean: object, std: object) -> str:
    return f"{mean:.1f}" + (f" ± {std:.1f}" if isinstance(std, float) else "") if isinstance(mean, float) else "–"


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(c)}</{tag}>" for c in cells) + "</tr>"

    rows = "".join(line(cells, "td") for cells in body)
    return f"<table><thead>{line(head, 'th')}</thead><tbody>{rows}</tbody></table>"
