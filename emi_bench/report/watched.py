"""Sections of the page on what a single number at the end does not show: the way there, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from emi_bench.anytime import summary
from emi_bench.report.axes import Setting, dataset_title, memory_title
from emi_bench.report.evidence import Evidence
from emi_bench.report.model import Record, Section
from emi_bench.report.plain import csv_text, html_table

COLUMNS = {
    "end": "End",
    "aaa": "AAA",
    "wc_acc": "WC-ACC",
    "stability_gap": "Stability gap",
    "recency_share": "Recency share",
}


def while_the_stream_runs(evidence: Evidence) -> Section | None:
    """End accuracy, average anytime accuracy and worst case beside each other."""
    records, body = list[Record](), list[list[str]]()
    for setting, rows in evidence.watched.items():
        for row, runs in rows.items():
            found = [summary(points) for points in runs]
            told = {key: _mean_and_std([100 * f[key] for f in found]) for key in COLUMNS}
            records.append(
                {"dataset": setting.dataset, "memory": setting.memory, "method": row.title, "n": len(runs)}
                | {name: v for k, pair in told.items() for name, v in zip((k, f"{k}_std"), pair, strict=True)}
            )
            body.append([setting.title, row.title, str(len(runs)), *(_value(*pair) for pair in told.values())])
    if not records:
        return None
    words = (
        "In percent, mean ± sample standard deviation over the runs, on the images of the curve. AAA: the mean over "
        "the stream. WC-ACC: the newest task now, every other at its worst since it was learned (low on few images). "
        "Stability gap: the drop right after a task begins. Recency share: predictions that fall into the newest task."
    )
    html = html_table(["", "Method", "Runs", *COLUMNS.values()], body) + f"<p>{escape(words)}</p>"
    return Section("anytime", "While the stream runs", html, {"tables/anytime.csv": csv_text(records)})


def equal_compute(evidence: Evidence) -> Section | None:
    """Accuracy beside cost, where the stream does not wait for a method or all have the same budget."""
    grid = evidence.grid
    records: list[Record] = []
    for setting in grid.settings:
        budget = setting.budget
        for row in grid.rows([setting], variants=True) if budget is not None else ():
            if runs := grid.cell(row, setting).runs:
                mean, std = _mean_and_std([100 * r.values["average_accuracy"] for r in runs])
                records.append(
                    {"dataset": setting.dataset, "memory": setting.memory, "budget": budget, "method": row.title,
                     "cost": runs[0].about.get("cost"), "train_every": runs[0].about.get("train_every"),
                     "n": len(runs), "mean": mean, "std": std}
                )  # fmt: skip
    if not records:
        return None
    records.sort(key=lambda r: (str(r["dataset"]), int(r["memory"]), float(r["budget"]), -float(r["mean"])))
    body = [
        [f"{dataset_title(str(r['dataset']))} {memory_title(int(r['memory']))}", f"{float(r['budget']):g}",
         str(r["method"]), "–" if r["cost"] is None else f"{float(r['cost']):.1f}", f"{float(r['train_every'] or 1):g}",
         _value(r["mean"], r["std"])]
        for r in records
    ]  # fmt: skip
    words = (
        "Budget and cost of a batch in steps of ER. Who costs more than the budget trains on every so many-th batch "
        "only and never sees the others. Accuracy in percent at the end."
    )
    head = ["", "Budget", "Method", "Cost", "Trains on every", "Accuracy"]
    html = html_table(head, body) + f"<p>{escape(words)}</p>"
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


def _mean_and_std(values: Sequence[float]) -> tuple[float, float | None]:
    x = np.array(values)
    return x.mean().item(), x.std(ddof=1).item() if len(x) > 1 else None


def _value(mean: float, std: float | None) -> str:
    return f"{mean:.1f}" + ("" if std is None else f" ± {std:.1f}")
