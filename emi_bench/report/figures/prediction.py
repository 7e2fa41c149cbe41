"""A proxy against the paper: each method's mean here over its published one, by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes

from emi_bench.report.axes import Row
from emi_bench.report.evidence import Evidence
from emi_bench.report.figures.canvas import WIDE, Drawing, look, new_figure
from emi_bench.report.prediction import Array, Panel


def prediction(evidence: Evidence) -> Iterator[Drawing]:
    """One figure for each column of a proxy."""
    for setting in dict.fromkeys(p.setting for p in evidence.proxy):
        yield scatter([p for p in evidence.proxy if p.setting == setting])


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
            ax.errorbar(
                printed.mean,
                values.mean(),
                xerr=np.nan_to_num(printed.std),
                yerr=np.nan_to_num(std),
                elinewidth=0.6,
                **style,
            )
            points.append((printed.mean, float(values.mean()), float(np.nan_to_num(std)), row.title))
            records.append(
                {"dataset": panel.setting.dataset, "memory": panel.setting.memory, "metric": panel.metric.name,
                 "method": method, "published": printed.mean,
                 "published_std": printed.std, "proxy": values.mean(), "proxy_std": std, "n": len(values)}
            )  # fmt: skip
        told = ", ".join(f"{c.name} {c.value:.2f} [{c.low:.2f}, {c.high:.2f}]" for c in panel.correlations)
        ax.set_title(f"{panel.setting.title}\n{told}" if told else panel.setting.title)
        ax.set_xlabel(f"{panel.metric.title}, published (%)")
        ax.set_ylabel(f"{panel.metric.title}, proxy (%)")
        ax.margins(0.16)
        _names(ax, points)
    caption = (
        "Each method's mean in the proxy over its published mean; bars are one sample standard deviation. Correlations "
        "are of ranks, without the two bounds, with 95 % intervals over seeds and methods drawn again."
    )
    return Drawing(
        f"prediction_{panels[0].setting.slug}",
        "Does the proxy predict the paper?",
        caption,
        figure,
        records,
        first=True,
    )


def _names(ax: Axes, points: Sequence[tuple[float, float, float, str]]) -> None:
    """Beside each point, where a name covers least of the marks and of the names before it; a name that had to go
    further away is tied to its point by a line."""
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    letter, line = 0.019 * (right - left), 0.045 * (top - bottom)
    sides = [(dx, dy) for dy in (0.6, -0.6, 0, 1.2, -1.2) for dx in (1, -1)]
    sides += [(dx, dy) for dy in (2.4, -2.4, 3.6, -3.6) for dx in (0, 1, -1)]

    def box(x: float, y: float, width: float, height: float = line) -> Array:
        return np.array([x - width / 2, y - height / 2, x + width / 2, y + height / 2])

    taken = [b for x, y, std, _ in points for b in (box(x, y, 2 * letter), box(x, y, letter / 2, 2 * std))]
    for x, y, _, name in sorted(points):
        width = letter * len(name)
        away = width / 2 + 1.2 * letter
        boxes = [box(x + dx * away, y + dy * line, width) for dx, dy in sides]
        chosen = int(np.argmin([sum(_overlap(b, other) for other in taken) for b in boxes]))
        free, (_, dy) = boxes[chosen], sides[chosen]
        taken.append(free)
        at = ((free[0] + free[2]) / 2, (free[1] + free[3]) / 2)
        ax.text(*at, name, fontsize=6.5, ha="center", va="center")
        if abs(dy) > 2:
            ax.plot([x, at[0]], [y, at[1] - np.sign(dy) * line / 2], color="#888888", linewidth=0.5, zorder=1)


def _overlap(a: Array, b: Array) -> float:
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    return float(sides.clip(0).prod())
