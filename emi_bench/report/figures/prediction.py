"""A proxy against the paper: each method's mean here over its published one, by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes

from emi_bench.report.axes import Row
from emi_bench.report.evidence import Evidence
from emi_bench.report.figures.canvas import WIDE, Drawing, look, new_figure
from emi_bench.report.prediction import correlations
from emi_bench.report.proxy import Panel, panels


def prediction(evidence: Evidence) -> Iterator[Drawing]:
    """One figure for each column of a proxy."""
    found = list(panels(evidence))
    for setting in dict.fromkeys(p.setting for p in found):
        yield scatter([p for p in found if p.setting == setting])


def scatter(panels: Sequence[Panel]) -> Drawing:
    """A scatter a panel. The line through the origin of equal values is left out: values are not what is compared."""
    figure, axes = new_figure(WIDE if len(panels) > 1 else 3.8, 3.3, 1, len(panels))
    records = []
    for ax, panel in zip(axes, panels, strict=True):
        points = []
        for method in (m for m in panel.paper if m in panel.ours):
            row, values = Row(method), np.array(list(panel.ours[method].values()))
            printed, std = panel.paper[method], float(values.std(ddof=1)) if len(values) > 1 else float("nan")
            style = look(row) | {"linestyle": "none", "markersize": 5.0}
            style["marker"] = style["marker"] or "x"
            ax.errorbar(printed.mean, values.mean(), xerr=_bar(printed.std), yerr=_bar(std), elinewidth=0.6, **style)
            points.append((printed.mean, float(values.mean()), row.title))
            records.append(
                {"dataset": panel.setting.dataset, "memory": panel.setting.memory, "metric": panel.metric.name,
                 "method": method, "published": printed.mean,
                 "published_std": printed.std, "proxy": values.mean(), "proxy_std": std, "n": len(values)}
            )  # fmt: skip
        _names(ax, points)
        told = ", ".join(
            f"{c.name} {c.value:.2f} [{c.low:.2f}, {c.high:.2f}]" for c in correlations(panel.ours, panel.paper)
        )
        ax.set_title(f"{panel.setting.title}\n{told}" if told else panel.setting.title)
        ax.set_xlabel(f"{panel.metric.title}, published (%)")
        ax.set_ylabel(f"{panel.metric.title}, proxy (%)")
        ax.margins(0.12)
    caption = (
        "Each method's mean in the proxy over its published mean; bars are one sample standard deviation. Correlations "
        "are of ranks, without the two bounds, with 95 % intervals over seeds and methods drawn again."
    )
    return Drawing(
        f"prediction_{panels[0].setting.slug}", "Does the proxy predict the paper?", caption, figure, records
    )


def _bar(std: float) -> float:
    return 0.0 if np.isnan(std) else std


def _names(ax: Axes, points: Sequence[tuple[float, float, str]]) -> None:
    """Beside each point, on alternating sides from left to right: near neighbours do not write on each other."""
    for i, (x, y, name) in enumerate(sorted(points)):
        side = 1 if i % 2 else -1
        ax.annotate(
            name, (x, y), xytext=(4 * side, 3 * side), textcoords="offset points", fontsize=6.5,
            ha="left" if side > 0 else "right", va="bottom" if side > 0 else "top",
        )  # fmt: skip
