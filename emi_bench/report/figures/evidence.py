"""Intervals as pictures: ours against each baseline, over all settings, and against the published numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from emi_bench import reference
from emi_bench.report.axes import ACCURACY, Row, apart, dataset_title, memory_title
from emi_bench.report.compare import comparisons
from emi_bench.report.figures.canvas import WIDE, Drawing, hide_spare, look, new_figure, panel_title
from emi_bench.report.grid import Grid
from emi_bench.report.statistics import differences, focus, overall

VERDICT_COLOURS = {"agrees": "#009e73", "above": "#0072b2", "below": "#d55e00", "too few runs": "#999999"}
VERDICT_MARKERS = {"agrees": "o", "above": "^", "below": "v", "too few runs": "x"}


def differences_figure(grid: Grid) -> Iterator[Drawing]:
    """Ours minus each baseline, paired over seeds, with 95 % bootstrap intervals; one panel a column."""
    ours = focus(grid, ACCURACY)
    found = differences(grid, grid.settings, ACCURACY, ours) if ours else []
    settings = [s for s in grid.settings if any(d.setting == s and d.enough for d in found)]
    if ours is None or not settings:
        return
    others = sorted({d.other for d in found}, key=lambda r: r.order)
    columns = min(3, len(settings))
    lines = -(-len(settings) // columns)
    height = lines * (0.55 + 0.15 * len(others)) + 0.3
    figure, axes = new_figure(WIDE if columns > 1 else 4.2, height, lines, columns, sharey=True)
    differs = apart(settings)
    for ax, setting in zip(axes, settings, strict=False):
        for d in (d for d in found if d.setting == setting):
            y, style = others.index(d.other), look(d.other)
            if d.enough:
                ax.plot([d.low, d.high], [y, y], color=style["color"], linewidth=1.6, solid_capstyle="butt")
            ax.plot(d.mean, y, marker=style["marker"], color=style["color"], fillstyle="full" if d.paired else "none")
        ax.axvline(0, color="black", linewidth=0.7)
        ax.set_title(panel_title(setting, differs))
        ax.set_yticks(range(len(others)), [r.title for r in others])
        ax.set_ylim(len(others) - 0.5, -0.5)
    hide_spare(axes, len(settings))
    for ax in axes[max(0, len(settings) - columns) : len(settings)]:
        ax.set_xlabel(f"{ours.title} minus method (points)")
    data = pd.DataFrame(
        {"dataset": d.setting.dataset, "memory": d.setting.memory, "ours": d.ours.title, "other": d.other.title,
         "n": d.n, "paired": d.paired, "mean": d.mean, "low": d.low, "high": d.high, "wins": d.wins,
         "improvement": d.improvement, "p": d.p, "p_holm": d.p_holm} for d in found
    )  # fmt: skip
    unpaired = "" if all(d.paired for d in found) else " Hollow marks are unpaired: the two methods share no seeds."
    caption = (
        f"{ours.title} minus each method in average accuracy: mean paired difference, 95 % BCa interval.{unpaired}"
    )
    yield Drawing("differences", f"{ours.title} against the others", caption, figure, data)


def overall_figure(grid: Grid) -> Iterator[Drawing]:
    """Interquartile mean and average rank over all columns, for rows that ran in all of them."""
    for name, settings in (("overall", grid.paper_settings), ("overall_own", grid.other_settings)):
        found = overall(grid, settings, ACCURACY)
        if not found:
            continue
        figure, axes = new_figure(WIDE, 0.7 + 0.2 * len(found), 1, 2, sharey=True)
        for y, o in enumerate(found):
            style = look(o.row)
            marker = {"color": style["color"], "marker": style["marker"], "markersize": style["markersize"] + 1}
            axes[0].plot([o.low, o.high], [y, y], color=style["color"], linewidth=1.6)
            axes[0].plot(o.iqm, y, **marker)
            axes[1].plot(o.rank, y, **marker)
        axes[0].set_yticks(range(len(found)), [o.row.title for o in found])
        axes[0].set_ylim(len(found) - 0.5, -0.5)
        axes[0].set_xlabel("Interquartile mean of accuracy (%)")
        axes[1].set_xlabel(f"Average rank over {found[0].n_settings} settings")
        data = pd.DataFrame(
            {"method": o.row.method, "variant": o.row.variant, "iqm": o.iqm, "low": o.low, "high": o.high,
             "rank": o.rank, "runs": o.n_runs, "settings": o.n_settings} for o in found
        )  # fmt: skip
        title = "Over all settings"
        caption = (
            "Interquartile mean of all runs with a stratified 95 % bootstrap interval, and the average rank; rows with "
            "gaps are left out."
        )
        yield Drawing(name if grid.paper_settings else "overall", title, caption, figure, data)


def forest(grid: Grid) -> Iterator[Drawing]:
    """Ours minus the paper's value for every cell of Table I and II that ran, coloured by the verdict."""
    found = [c for c in comparisons(grid) if c.source == reference.PAPER and c.n and c.place in ("table1", "table2")]
    for place, metric in (("table1", "accuracy"), ("table2", "forgetting")):
        cells = [c for c in found if c.place == place]
        datasets = [d for d in reference.settings()["datasets"] if any(c.dataset == d for c in cells)]
        if not cells:
            continue
        rows = sorted({c.method for c in cells}, key=lambda m: Row(m).order)
        figure, axes = new_figure(WIDE, 0.9 + 0.34 * len(rows), 1, len(datasets), sharey=True)
        for ax, dataset in zip(axes, datasets, strict=True):
            memories = sorted({c.memory for c in cells if c.dataset == dataset})
            for c in (c for c in cells if c.dataset == dataset):
                offset = (memories.index(c.memory) - (len(memories) - 1) / 2) * 0.26
                y = rows.index(c.method) + offset
                colour = VERDICT_COLOURS[c.verdict]
                if c.low == c.low:
                    ax.plot([c.low - c.published, c.high - c.published], [y, y], color=colour, linewidth=1.2)
                ax.plot(c.delta, y, color=colour, marker=VERDICT_MARKERS[c.verdict], markersize=2.8)
            ax.axvline(0, color="black", linewidth=0.7)
            sizes = ", ".join(memory_title(m).removeprefix("M=") for m in memories)
            ax.set_title(f"{dataset_title(dataset)} ({sizes} from top)")
            ax.set_yticks(np.arange(len(rows)), [Row(m).title for m in rows])
            ax.set_ylim(len(rows) - 0.4, -0.6)
            ax.set_xlabel("Ours minus paper (points)")
        for verdict, colour in VERDICT_COLOURS.items():
            if any(c.verdict == verdict for c in cells):
                axes[0].plot([], [], color=colour, marker=VERDICT_MARKERS[verdict], label=verdict)
        figure.legend(loc="outside lower center", ncols=4)
        data = pd.DataFrame(
            {"dataset": c.dataset, "memory": c.memory, "method": c.method, "paper": c.published, "ours": c.mean,
             "n": c.n, "delta": c.delta, "low": c.low - c.published, "high": c.high - c.published, "verdict": c.verdict}
            for c in cells
        )  # fmt: skip
        caption = f"Ours minus the paper's {metric}, with the 95 % t interval of our mean."
        yield Drawing(f"forest_{metric}", f"Paper and ours: {metric}", caption, figure, data)
