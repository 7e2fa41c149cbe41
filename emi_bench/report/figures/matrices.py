"""Accuracy matrices as heat maps, and what one method keeps that another loses."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from emi_bench.report.axes import ACCURACY, Row, Setting, apart
from emi_bench.report.evidence import Evidence
from emi_bench.report.figures.canvas import INK, PAPER, WIDE, Drawing, hide_spare, new_figure, task_ticks
from emi_bench.report.grid import Grid
from emi_bench.report.model import Record
from emi_bench.report.watched import short_stream_words

Matrix = NDArray[np.float64]


def mean_matrix(grid: Grid, row: Row, setting: Setting) -> Matrix:
    """Mean over the runs, percent, (T,T), NaN above the diagonal."""
    return grid.cell(row, setting).mean_matrix * 100


def heat_maps(evidence: Evidence) -> Iterator[Drawing]:
    """One figure a column: every method, then the difference of ours and OCM (or the best other)."""
    grid = evidence.grid
    for setting in grid.settings:
        rows = [r for r in grid.ran(setting) if not grid.joint(r, setting)]
        if rows:
            yield _draw(grid, setting, rows)


def rival_of(grid: Grid, ours: Row, setting: Setting, rows: list[Row]) -> Row | None:
    """OCM, on which EMI is built; without it the best of the others."""
    others = [r for r in rows if r != ours and r.role != "bound"]
    if Row("ocm") in others:
        return Row("ocm")
    return max(others, key=lambda r: float(grid.cell(r, setting).sample(ACCURACY).mean()), default=None)


def _draw(grid: Grid, setting: Setting, rows: list[Row]) -> Drawing:
    ours = grid.focus
    rival = rival_of(grid, ours, setting, rows) if ours in rows and ours is not None else None
    panels: list[tuple[str, Matrix, bool]] = [(r.title, mean_matrix(grid, r, setting), False) for r in rows]
    if ours is not None and rival is not None:
        gap = mean_matrix(grid, ours, setting) - mean_matrix(grid, rival, setting)
        panels.append((f"{ours.title} − {rival.title}", gap, True))
    shown = [values for _, values, difference in panels if not difference]
    limit = _limit(shown)
    beyond = any(np.nanmax(values) > limit for values in shown)
    columns = min(5, len(panels))
    lines = -(-len(panels) // columns)
    width, height = WIDE * max(columns, 3) / 5, 1.55 * lines + 0.3
    # Placed by hand: the constrained engine takes most of a figure's time with so many panels.
    figure, axes = new_figure(width, height, lines, columns, layout=None)
    figure.subplots_adjust(0.5 / width, 0.4 / height, 1 - 0.76 / width, 1 - 0.22 / height, wspace=0.15, hspace=0.42)
    for ax, (title, values, difference) in zip(axes, panels, strict=False):
        _panel(ax, title, values, difference, limit)
    hide_spare(axes, len(panels))
    for i, ax in enumerate(axes[: len(panels)]):
        if i % columns:
            ax.set_yticklabels([])
    for ax in axes[::columns]:
        ax.set_ylabel("After task")
    for ax in axes[max(0, len(panels) - columns) : len(panels)]:
        ax.set_xlabel("Task")
    bars = [(axes[0], False), *((ax, True) for ax, p in zip(axes, panels, strict=False) if p[2])]
    share = (1 - 0.62 / height) / len(bars)
    for i, (ax, difference) in enumerate(bars):
        bottom = 0.4 / height + (len(bars) - 1 - i) * share
        side = figure.add_axes((1 - 0.62 / width, bottom, 0.09 / width, share * (0.86 if len(bars) > 1 else 1)))
        bar = figure.colorbar(ax.images[0], cax=side, extend="max" if beyond and not difference else "neither")
        bar.set_label("Difference" if difference else "Accuracy (%)")
        bar.outline.set_visible(False)
    differs = apart(grid.settings)[setting]
    name = f"{setting.title}{', ' if differs else ''}{differs}"
    caption = (
        "Mean accuracy on each task (column) after each task (row); the last panel is a difference, blue above zero."
    ) + (f" Accuracies above {limit:.0f} have the last colour of the scale." if beyond else "")
    caption += short_stream_words([setting], {row.method for row in rows})
    title = f"Accuracy matrices: {name}"
    # The paper's many matrices stay out of the page, whose cells show them.
    on_page = not grid.paper_settings
    return Drawing(f"matrices_{setting.slug}", title, caption, figure, _data(grid, setting, rows), on_page)


def _limit(matrices: list[Matrix]) -> float:
    """Where the scale of accuracies ends: at 100, but where all are low at the highest. Of many tasks nearly all fields
    are far below the diagonal's."""
    values = np.concatenate([m[~np.isnan(m)] for m in matrices])
    if len(matrices[0]) <= 20:
        highest = float(np.ceil(values.max() / 10) * 10)
        return highest if 0 < highest <= 50 else 100.0
    return float(min(100.0, max(10.0, np.ceil(np.percentile(values, 97) / 10) * 10)))


def _panel(ax: Axes, title: str, values: Matrix, difference: bool, scale: float) -> None:
    t = len(values)
    limit = max(1.0, float(np.nanmax(np.abs(values)))) if difference else scale
    colours = mpl.colormaps["RdBu" if difference else "viridis"]
    ax.imshow(values, cmap=colours, vmin=-limit if difference else 0, vmax=limit, interpolation="nearest",
              aspect="equal", extent=(0.5, t + 0.5, t + 0.5, 0.5))  # fmt: skip
    ax.set_title(title)
    ax.grid(False)
    ax.spines[:].set_visible(False)
    ticks = [k for k in task_ticks(t) if t <= 6 or k in (1, t // 2, t)] or [1, t]
    ax.set_xticks(ticks)
    ax.set_yticks(ticks)
    if t <= 6:
        for i, j in zip(*np.nonzero(~np.isnan(values)), strict=True):
            v = float(values[i, j])
            dark = abs(v) > 0.6 * limit if difference else v < 0.6 * limit
            text = f"{round(v):+d}" if difference and round(v) else f"{abs(v):.0f}"
            ax.text(j + 1, i + 1, text, ha="center", va="center", fontsize=5.5, color=PAPER if dark else INK)


def _data(grid: Grid, setting: Setting, rows: list[Row]) -> list[Record]:
    out: list[Record] = []
    for row in rows:
        m, n = mean_matrix(grid, row, setting), grid.cell(row, setting).n
        after, task = np.nonzero(~np.isnan(m))
        fields = zip((after + 1).tolist(), (task + 1).tolist(), m[after, task].round(6).tolist(), strict=True)
        out += [{"after_task": i, "task": j, "mean": v, "method": row.method, "variant": row.variant, "n": n}
                for i, j, v in fields]  # fmt: skip
    return out
