"""Accuracy while the stream runs: what the points after each task hide."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from emi_bench.anytime import anytime_accuracy, curve_of
from emi_bench.report.evidence import Evidence
from emi_bench.report.figures.canvas import WIDE, Drawing, band, look, new_figure, one_legend
from emi_bench.report.model import Record

VARIANTS = ("--", ":", "-.")


def over_steps(evidence: Evidence) -> Iterator[Drawing]:
    """The mean accuracy over the tasks begun, after every so many steps; a line where a task ends."""
    for setting, rows in evidence.watched.items():
        figure, (ax,) = new_figure(WIDE, 3.0)
        data: list[Record] = []
        ends: list[int] = []
        for row, runs in rows.items():
            curves = [curve_of(points) for points in runs]
            curves = [c for c in curves if np.array_equal(c.step, curves[0].step)]  # of others the mean says nothing
            step, values = curves[0].step, 100 * np.stack([anytime_accuracy(c) for c in curves])
            mean, style = values.mean(axis=0), look(row) | {"marker": ""}
            if row.variant:  # without markers, variants of one method need lines of their own
                mates = [r for r in rows if r.method == row.method and r.variant]
                style["linestyle"] = VARIANTS[mates.index(row) % len(VARIANTS)]
            ax.plot(step, mean, label=row.title, **style)
            band(ax, step, values, style["color"])
            ends = [int(step[curves[0].task == t][-1]) for t in range(int(curves[0].task[-1]))]
            data += [
                {"method": row.method, "variant": row.variant, "step": int(s), "mean": m, "n": len(values)}
                for s, m in zip(step, mean.tolist(), strict=True)
            ]
        for end in ends:
            ax.axvline(end, color="#999999", linewidth=0.6, linestyle=":", zorder=1)
        ax.set_xlabel("Steps of the stream")
        ax.set_ylabel("Accuracy (%)")
        ax.set_ylim(bottom=0)
        one_legend(figure, [ax], rows)
        caption = (
            f"Accuracy while the stream runs, {setting.title}: mean over the tasks begun on a fixed share of "
            "the test images; bands are one sample standard deviation, dotted "
            "lines task ends."
        )
        yield Drawing(f"anytime_{setting.slug}", "While the stream runs", caption, figure, data)
