"""Incremental accuracy: the mean over the tasks seen so far, after each task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from emi_bench.report.axes import Row, Setting, apart
from emi_bench.report.evidence import Evidence
from emi_bench.report.figures.canvas import (
    WIDE,
    Drawing,
    band,
    hide_spare,
    look,
    new_figure,
    one_legend,
    panel_title,
    task_ticks,
)
from emi_bench.report.grid import Grid
from emi_bench.report.watched import short_stream_words


def incremental(evidence: Evidence) -> Iterator[Drawing]:
    """One panel per data set and memory, a band of one sample standard deviation, ours last and thicker."""
    grid = evidence.grid
    for name, all_settings in (
        ("incremental_accuracy", grid.paper_settings),
        ("incremental_accuracy_own", grid.other_settings),
    ):
        if settings := [s for s in all_settings if grid.ran(s)]:
            yield _draw(grid, settings, name if grid.paper_settings else "incremental_accuracy")


def _draw(grid: Grid, settings: Sequence[Setting], name: str) -> Drawing:
    columns = min(3, len(settings))
    rows = -(-len(settings) // columns)
    width = WIDE if columns > 1 else 4.2
    figure, axes = new_figure(width, 0.45 + 2.0 * rows if columns > 1 else 3.8, rows, columns)
    differs = apart(settings)
    records: list[tuple[Setting, Row, list[int], np.ndarray, int]] = []
    for ax, setting in zip(axes, settings, strict=False):
        tasks = np.arange(1, setting.n_tasks + 1)
        for row in grid.ran(setting):
            cell = grid.cell(row, setting)
            curves = cell.curves()
            style = look(row)
            if grid.joint(row, setting):
                ax.axhline(curves[:, -1].mean(), label=row.title, color=style["color"], linestyle="--", linewidth=1)
                records.append((setting, row, [setting.n_tasks], curves[:, -1:], cell.n))
                continue
            mean = curves.mean(axis=0)
            marker = style.pop("marker") if setting.n_tasks <= 20 else style.pop("marker") and ""
            ax.plot(tasks, mean, label=row.title, marker=marker, **style)
            band(ax, tasks, curves, style["color"])
            records.append((setting, row, [int(t) for t in tasks], curves, cell.n))
        ax.set_title(panel_title(setting, differs))
        ax.set_xticks(task_ticks(setting.n_tasks))
        ax.set_ylim(bottom=0)
    hide_spare(axes, len(settings))
    for ax in axes[max(0, len(settings) - columns) : len(settings)]:
        ax.set_xlabel("Tasks observed")
    for ax in axes[::columns]:
        ax.set_ylabel("Accuracy (%)")
    one_legend(figure, axes[: len(settings)], {row for _, row, *_ in records})
    data = [
        {"dataset": s.dataset, "memory": s.memory, "method": r.method, "variant": r.variant, "after_task": t,
         "mean": values[:, i].mean(), "std": values[:, i].std(ddof=1) if n > 1 else np.nan, "n": n}
        for s, r, observed, values, n in records for i, t in enumerate(observed)
    ]  # fmt: skip
    caption = "Mean accuracy over the tasks observed so far; bands are one sample standard deviation over the runs."
    caption += short_stream_words(settings, {row.method for _, row, *_ in records})
    return Drawing(name, "Incremental accuracy", caption, figure, data, first=True)
