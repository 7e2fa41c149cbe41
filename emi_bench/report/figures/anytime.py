"""Accuracy while the stream runs: what the points after each task hide."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from emi_bench.anytime import anytime_accuracy, curve_of
from emi_bench.report.axes import dataset_title, memory_title
from emi_bench.report.evidence import Evidence
from emi_bench.report.figures.canvas import WIDE, Drawing, look, new_figure, one_legend
from emi_bench.report.model import Record


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
            ax.plot(step, mean, label=row.title, **style)
            if len(values) > 1:
                std = values.std(axis=0, ddof=1)
                ax.fill_between(step, mean - std, mean + std, color=style["color"], alpha=0.15, linewidth=0)
            ends = [int(step[curves[0].task == t][-1]) for t in range(int(curves[0].task[-1]))]
            data += [
                {"method": row.method, "variant": row.variant, "step": int(s), "mean": m, "n": len(values)}
                for s, m in zip(step, mean.tolist(), strict=True)
            ]
        for end in ends:
            ax.axvline(end, color="#999999", linewidth=0.6, linestyle=":", zorder=1)
        ax.set_xlabel("Steps of the stream")
        ax.set_ylabel("Accuracy on the tasks begun (%)")
        ax.set_ylim(bottom=0)
        one_legend(figure, [ax], rows)
        caption = (
            f"Accuracy while the stream runs, {dataset_title(setting.dataset)}, {memory_title(setting.memory)}: mean "
            "over the tasks begun on a fixed share of the test images; bands are one sample standard deviation, dotted "
            "lines task ends."
        )
        yield Drawing(f"anytime_{setting.slug}", "While the stream runs", caption, figure, data)
