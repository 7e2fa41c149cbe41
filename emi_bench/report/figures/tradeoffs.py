"""What accuracy costs: in memory and in time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from emi_bench.report.axes import ACCURACY, TIME, Setting, dataset_title, memory_title
from emi_bench.report.cells import summarize
from emi_bench.report.evidence import Evidence
from emi_bench.report.figures.canvas import WIDE, Drawing, look, new_figure, one_legend
from emi_bench.report.grid import Grid
from emi_bench.report.model import Record


def _families(grid: Grid) -> list[list[Setting]]:
    """Columns of one data set and protocol, small memory first."""
    return [list(g) for _, g in groupby(grid.settings, key=lambda s: s.family)]


def memory(evidence: Evidence) -> Iterator[Drawing]:
    """Accuracy against memory, where a data set has two or more sizes."""
    grid = evidence.grid
    families = [f for f in _families(grid) if len(f) > 1]
    if not families:
        return
    figure, axes = new_figure(WIDE if len(families) > 1 else 4.2, 2.9, 1, len(families))
    records = []
    for ax, family in zip(axes, families, strict=True):
        for row in grid.rows(family):
            found = [(s.memory, x) for s in family if (x := summarize(grid.cell(row, s), ACCURACY))]
            style = look(row)
            xs, means = [m for m, _ in found], [x.mean for _, x in found]
            spreads = [0.0 if x.spread != x.spread else x.spread for _, x in found]
            ax.errorbar(xs, means, yerr=spreads, label=row.title, elinewidth=0.7, **style)
            records += [
                {"dataset": family[0].dataset, "memory": m, "method": row.method, "variant": row.variant,
                 "mean": x.mean, "std": x.spread, "n": x.n} for m, x in found
            ]  # fmt: skip
        ax.set_xscale("log")
        ax.set_xticks([s.memory for s in family], [memory_title(s.memory).removeprefix("M=") for s in family])
        ax.minorticks_off()
        ax.set_ylim(bottom=0)
        ax.set_title(dataset_title(family[0].dataset))
        ax.set_xlabel("Memory (images)")
    axes[0].set_ylabel("Average accuracy (%)")
    one_legend(figure, axes, {row for f in families for row in grid.rows(f)})
    caption = "Average accuracy after the last task against memory size; bars are one sample standard deviation."
    yield Drawing("memory", "Accuracy and memory", caption, figure, records)


def cost(evidence: Evidence) -> Iterator[Drawing]:
    """Accuracy against time per training batch, at the largest memory of each data set."""
    grid = evidence.grid
    settings = [f[-1] for f in _families(grid) if f[-1].budget is None]
    found = [
        (s, row, acc, ms)
        for s in settings for row in grid.rows([s]) if not grid.joint(row, s)
        if (acc := summarize(grid.cell(row, s), ACCURACY)) and (ms := summarize(grid.cell(row, s), TIME))
    ]  # fmt: skip
    shown = list(dict.fromkeys(s for s, *_ in found))
    if not shown:
        return
    figure, axes = new_figure(WIDE if len(shown) > 1 else 4.2, 2.9, 1, len(shown))
    for ax, setting in zip(axes, shown, strict=True):
        for _, row, acc, ms in (f for f in found if f[0] == setting):
            style = look(row) | {"linestyle": "none"}
            style["marker"] = style["marker"] or "x"
            style["markersize"] += 2
            ax.errorbar(ms.mean, acc.mean, yerr=acc.spread, label=row.title, elinewidth=0.7, **style)
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
        ax.xaxis.set_minor_formatter(lambda v, _: f"{v:g}" if str(v)[0] in "25" else "")
        ax.tick_params(axis="x", which="minor", labelsize=7)
        ax.set_ylim(bottom=0)
        ax.set_title(setting.title)
        ax.set_xlabel("Training time (ms per batch)")
    axes[0].set_ylabel("Average accuracy (%)")
    one_legend(figure, axes, {row for _, row, *_ in found})
    data = [
        {"dataset": s.dataset, "memory": s.memory, "method": row.method, "variant": row.variant, "accuracy": acc.mean,
         "accuracy_std": acc.spread, "ms_per_batch": ms.mean, "ms_std": ms.spread, "n": acc.n}
        for s, row, acc, ms in found
    ]  # fmt: skip
    caption = (
        "Average accuracy against the median time of a training step, at each data set's largest memory. What a method "
        "does at the end of a task or only now and then (SSD's summaries) is not in it; one that trains only at the "
        "end of a task (GDumb) has no place here."
    )
    yield Drawing("cost", "Accuracy and cost", caption, figure, data)


def budget(evidence: Evidence) -> Iterator[Drawing]:
    """Accuracy against what a batch costs, where everyone has the same compute: a panel a budget."""
    grid = evidence.grid
    paced = {s: s.budget for s in grid.settings if s.budget is not None}

    def alike(s: Setting) -> str:
        return repr((s.dataset, s.n_tasks, s.memory, [pair for pair in s.protocol if pair[0] != "budget"]))

    for _, found in groupby(sorted(paced, key=lambda s: (alike(s), paced[s])), key=alike):
        panels = list(found)
        dataset, size = panels[0].dataset, panels[0].memory
        figure, axes = new_figure(WIDE if len(panels) > 1 else 4.2, 2.9, 1, len(panels), sharex=True, sharey=True)
        records: list[Record] = []
        rows = {row for s in panels for row in grid.rows([s], variants=True)}
        for ax, setting in zip(axes, panels, strict=True):
            for row in grid.rows([setting], variants=True):
                cell = grid.cell(row, setting)
                known = summarize(cell, ACCURACY)
                price = cell.runs[0].about.get("cost") if known else None
                if known is None or price is None:
                    continue
                style = look(row) | {"linestyle": "none", "markersize": 6.0}
                style |= {"markerfacecolor": "none"} if row.variant else {}
                ax.errorbar(float(price), known.mean, yerr=known.spread, label=row.title, elinewidth=0.7, **style)
                records.append(
                    {"dataset": dataset, "memory": size, "budget": paced[setting], "method": row.method,
                     "variant": row.variant, "cost": float(price), "mean": known.mean, "std": known.spread,
                     "n": known.n}
                )  # fmt: skip
            ax.axvline(paced[setting], color="#999999", linewidth=0.6, linestyle=":", zorder=1)
            ax.set_xscale("log")
            ax.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
            ax.set_title("real time" if paced[setting] == 1 else f"{paced[setting]:g} steps of ER a batch")
            ax.set_xlabel("Cost of a batch (steps of ER)")
        axes[0].set_ylim(bottom=0)  # of all panels, and only now: it ends their growing with what is drawn
        axes[0].set_ylabel("Average accuracy (%)")
        one_legend(figure, axes, rows)
        caption = (
            f"Accuracy against compute, {dataset_title(dataset)}, {memory_title(size)}. In a panel everyone may spend "
            "the same on a batch of the stream (dotted): who costs more, on its right, trains on every second, third "
            "... batch only and never sees the others. Bars are one sample standard deviation."
        )
        yield Drawing(f"budget_{panels[0].slug}", "Accuracy and compute", caption, figure, records)
