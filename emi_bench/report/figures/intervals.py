"""Intervals as pictures: ours against each baseline, over all settings, and against the published numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from emi_bench import reference
from emi_bench.report.axes import Row, apart, dataset_title, memory_title
from emi_bench.report.evidence import Evidence
from emi_bench.report.figures.canvas import WIDE, Drawing, hide_spare, look, new_figure, panel_title

VERDICT_COLOURS = {"agrees": "#009e73", "above": "#0072b2", "below": "#d55e00", "too few runs": "#999999"}
VERDICT_MARKERS = {"agrees": "o", "above": "^", "below": "v", "too few runs": "x"}


def differences(evidence: Evidence) -> Iterator[Drawing]:
    """Ours minus each baseline, paired over seeds, with 95 % t intervals; one panel a column."""
    grid, ours, found = evidence.grid, evidence.grid.focus, evidence.differences
    settings = [s for s in grid.settings if any(d.setting == s and d.found.enough for d in found)]
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
            y, style, f = others.index(d.other), look(d.other), d.found
            if f.enough:
                ax.plot([f.low, f.high], [y, y], color=style["color"], linewidth=1.6, solid_capstyle="butt")
            ax.plot(f.mean, y, marker=style["marker"], color=style["color"], fillstyle="full" if f.paired else "none")
        ax.axvline(0, color="black", linewidth=0.7)
        ax.set_title(panel_title(setting, differs))
        ax.set_yticks(range(len(others)), [r.title for r in others])
        ax.set_ylim(len(others) - 0.5, -0.5)
    hide_spare(axes, len(settings))
    for ax in axes[max(0, len(settings) - columns) : len(settings)]:
        ax.set_xlabel(f"{ours.title} minus method (points)")
    unpaired = "" if all(d.found.paired for d in found) else " Hollow marks are unpaired: too few shared seeds."
    caption = f"{ours.title} minus each method in average accuracy: mean paired difference, 95 % t interval.{unpaired}"
    yield Drawing("differences", f"{ours.title} against the others", caption, figure, [d.record for d in found])


def overall(evidence: Evidence) -> Iterator[Drawing]:
    """The way from fine-tune to offline and the average rank over all columns, for rows that ran in all of them."""
    for group, found in evidence.overall.items():
        scored = all(o.score.mean == o.score.mean for o in found)
        figure, axes = new_figure(WIDE if scored else 4.2, 0.7 + 0.2 * len(found), 1, 2 if scored else 1, sharey=True)
        for y, o in enumerate(found):
            style = look(o.row)
            marker = {"color": style["color"], "marker": style["marker"], "markersize": style["markersize"] + 1}
            axes[0].plot(o.rank, y, **marker)
            if scored:
                axes[1].plot([o.score.low, o.score.high], [y, y], color=style["color"], linewidth=1.6)
                axes[1].plot(o.score.mean, y, **marker)
        axes[0].set_yticks(range(len(found)), [o.row.title for o in found])
        axes[0].set_ylim(len(found) - 0.5, -0.5)
        axes[0].set_xlabel(f"Average rank over {found[0].n_settings} settings")
        if scored:
            axes[1].set_xlabel("Way from fine-tune (0) to offline (100)")
        data = [
            {"method": o.row.method, "variant": o.row.variant, "rank": o.rank, "score": o.score.mean,
             "low": o.score.low, "high": o.score.high, "seeds": o.score.n, "runs": o.n_runs, "settings": o.n_settings}
            for o in found
        ]  # fmt: skip
        caption = "Average rank by mean accuracy; rows with gaps are left out." + (
            " Beside it, the way from fine-tune's to offline's accuracy that a method goes, averaged over the "
            "settings; 95 % t interval over the seeds." if scored else ""
        )  # fmt: skip
        name = "overall" if group == "paper" or not evidence.grid.paper_settings else "overall_own"
        yield Drawing(name, "Over all settings", caption, figure, data)


def forest(evidence: Evidence) -> Iterator[Drawing]:
    """Ours minus the paper's value for every cell of Table I and II that ran, coloured by the verdict."""
    found = [c for c in evidence.compared if c.source == reference.PAPER and c.n]
    for place, metric in (("table1", "accuracy"), ("table2", "forgetting")):
        cells = [c for c in found if c.place == place]
        datasets = [d for d in reference.settings()["datasets"] if any(c.dataset == d for c in cells)]
        if not cells:
            continue
        rows = sorted({Row(c.method) for c in cells}, key=lambda r: r.order)
        figure, axes = new_figure(WIDE, 0.9 + 0.34 * len(rows), 1, len(datasets), sharey=True)
        for ax, dataset in zip(axes, datasets, strict=True):
            memories = sorted({c.memory for c in cells if c.dataset == dataset})
            for c in (c for c in cells if c.dataset == dataset):
                offset = (memories.index(c.memory) - (len(memories) - 1) / 2) * 0.26
                y = rows.index(Row(c.method)) + offset
                colour = VERDICT_COLOURS[c.verdict]
                if c.difference.enough:
                    ax.plot([c.difference.low, c.difference.high], [y, y], color=colour, linewidth=1.2)
                ax.plot(c.delta, y, color=colour, marker=VERDICT_MARKERS[c.verdict], markersize=2.8)
            ax.axvline(0, color="black", linewidth=0.7)
            sizes = ", ".join(memory_title(m).removeprefix("M=") for m in memories)
            ax.set_title(f"{dataset_title(dataset)} ({sizes} from top)")
            ax.set_yticks(np.arange(len(rows)), [r.title for r in rows])
            ax.set_ylim(len(rows) - 0.4, -0.6)
            ax.set_xlabel("Ours minus paper (points)")
        for verdict, colour in VERDICT_COLOURS.items():
            if any(c.verdict == verdict for c in cells):
                axes[0].plot([], [], color=colour, marker=VERDICT_MARKERS[verdict], label=verdict)
        figure.legend(loc="outside lower center", ncols=4)
        data = [
            {"dataset": c.dataset, "memory": c.memory, "method": c.method, "paper": c.published, "ours": c.mean,
             "n": c.n, "delta": c.delta, "low": c.difference.low, "high": c.difference.high, "verdict": c.verdict}
            for c in cells
        ]  # fmt: skip
        caption = f"Ours minus the paper's {metric}, with the 95 % Welch interval of the difference."
        yield Drawing(f"forest_{metric}", f"Paper and ours: {metric}", caption, figure, data)
