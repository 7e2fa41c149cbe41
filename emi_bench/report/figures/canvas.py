"""How a figure looks and how it is kept: one style, one colour a method, the same bytes for the same input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from fontTools import subset
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from emi_bench.report.axes import Row, Setting
from emi_bench.report.model import Record
from emi_bench.report.plain import csv_text

# A PDF says where each letter stands: what its fonts know of kerning and formulas is half of the time of cutting them.
subset.Options._drop_tables_default += ["GDEF", "GPOS", "GSUB", "MATH", "kern"]

WIDE, NARROW = 7.16, 3.5  #: inches, a page and a column
PAPER, INK = "#fefefe", "#010101"  #: what is written on a heat map, dark and bright; the page leaves them as they are

#: For methods that say nothing of their colour, by their name.
SPARE = [("#4477aa", "1"), ("#228833", "2"), ("#aa3377", "3"), ("#666633", "4"), ("#225566", "+")]


def look(row: Row) -> dict[str, Any]:
    """Line keywords of a row: the same in every figure; ours drawn last and thicker, a variant dashed in its method's
    colour."""
    facts = row.known
    colour, marker = SPARE[sum(map(ord, row.method)) % len(SPARE)]
    ours = row.role == "ours"
    return {"color": facts.colour or colour, "marker": facts.marker if facts.colour else marker,
            "linestyle": "--" if row.variant else facts.line, "linewidth": 2.0 if ours else 1.1,
            "markersize": 6.0 if ours else 3.2, "zorder": 5 if ours else 3}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure, what it shows, and the tidy data behind it. `on_page`: whether the page shows it."""

    name: str
    title: str
    caption: str
    figure: Figure
    data: Sequence[Record]
    on_page: bool = True
    first: bool = False  #: beside the headline table


def new_figure(
    width: float, height: float, rows: int = 1, columns: int = 1, layout: Any = "constrained", **kw: Any
) -> tuple[Figure, list[Axes]]:
    """A figure in our style with its axes as a flat list. `layout` None where the maker places its panels itself."""
    with as_file(files(__package__) / "paper.mplstyle") as style:
        mpl.rcParams.update(mpl.rc_params_from_file(style, use_default_template=False))
    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **kw)
    return figure, list(axes.ravel())


def one_legend(figure: Figure, axes: Sequence[Axes], rows: Iterable[Row], columns: int = 8) -> None:
    """One legend below all panels, each label once, in the order of the rows of the tables."""
    handles: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    places = {row.title: row.order for row in rows}
    labels = sorted(handles, key=lambda name: places[name])
    longest = max(map(len, labels), default=1)
    fitting = max(1, int(figure.get_figwidth() / (0.42 + 0.05 * longest)))  # inches of a handle and of a letter
    columns = min(columns, fitting, len(labels))
    figure.legend([handles[n] for n in labels], labels, loc="outside lower center", ncols=columns)


def panel_title(setting: Setting, differs: Mapping[Setting, str]) -> str:
    """Data set and memory; below, in what the protocol differs from the other panels of the data set."""
    below = f"\n{differs[setting]}" if differs[setting] else ""
    return setting.title + below


def band(ax: Axes, x: Any, values: NDArray[np.float64], colour: str) -> None:
    """One sample standard deviation of the runs (n, points) about their mean, percent; none of one run."""
    if len(values) > 1:
        mean, std = values.mean(axis=0), values.std(axis=0, ddof=1)
        ax.fill_between(x, (mean - std).clip(0), (mean + std).clip(max=100), color=colour, alpha=0.15, linewidth=0)


def hide_spare(axes: Sequence[Axes], used: int) -> None:
    """Panels without content vanish."""
    for ax in axes[used:]:
        ax.set_visible(False)


def save(drawing: Drawing, folder: Path) -> list[Path]:
    """PDF, PNG and CSV under `folder`; no dates inside, so that the same input gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{drawing.name}.{kind}" for kind in ("pdf", "png", "csv")]
    for axis in (axis for ax in drawing.figure.axes for axis in (ax.xaxis, ax.yaxis)):
        if not axis.label.get_text():
            axis.set_label_coords(0, 0)  # said, so that no place is looked for beside the ticks in every drawing
    engine = drawing.figure.get_layout_engine()
    if engine is not None:
        # Once is enough: left in place, the engine would lay out and draw again for each of the files.
        engine.execute(drawing.figure)
        drawing.figure.set_layout_engine(None)
    dates = {"CreationDate": None, "ModDate": None, "Producer": "emi-bench", "Creator": "emi-bench"}
    drawing.figure.savefig(paths[0], metadata=dates)
    drawing.figure.savefig(paths[1], metadata={"Software": None})
    paths[2].write_text(csv_text(drawing.data), encoding="utf-8", newline="\n")
    return paths


def task_ticks(n_tasks: int) -> list[int]:
    """
    >>> task_ticks(5), task_ticks(100)
    ([1, 2, 3, 4, 5], [1, 20, 40, 60, 80, 100])
    """
    if n_tasks <= 6:
        return list(range(1, n_tasks + 1))
    step = next(s for s in (2, 5, 10, 20, 50, 100) if n_tasks / s <= 6)
    return [1, *(int(t) for t in np.arange(step, n_tasks + 1, step))]
