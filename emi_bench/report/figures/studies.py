"""Studies of EMI's constants: the parts, the two thresholds, the prototype size, and the readings of the paper."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd

from emi_bench import reference
from emi_bench.report.axes import ACCURACY, Row, Setting, dataset_title, memory_title
from emi_bench.report.figures.canvas import NARROW, WIDE, Drawing, new_figure
from emi_bench.report.grid import Grid, summarize
from emi_bench.report.statistics import contrast
from emi_bench.report.studies import (
    ALPHAS,
    FLAGS,
    PROTOTYPES,
    Study,
    all_studies,
    is_study_setting,
    published,
    readings,
)

OURS, PAPER = "#d62718", "#404040"


def _name(kind: str, setting: Setting) -> str:
    return kind if is_study_setting(setting) else f"{kind}_{setting.slug}"


def _where(setting: Setting) -> str:
    return f"{dataset_title(setting.dataset)}, {memory_title(setting.memory)}"


def _data(study: Study) -> pd.DataFrame:
    paper = published(study.keys) if is_study_setting(study.setting) else {}
    return pd.DataFrame(
        dict(zip(study.keys, point, strict=True))
        | {"mean": s.mean, "std": s.spread, "n": s.n, "paper": paper.get(point, float("nan"))}
        for point, cell in study.points.items()
        if (s := summarize(cell, ACCURACY))
    )


def ablation(grid: Grid) -> Iterator[Drawing]:
    """A bar for every set of parts, the paper's value as a mark."""
    for study in all_studies(grid, FLAGS):
        data = _data(study)
        figure, (ax,) = new_figure(NARROW + 1.2, 2.6)
        parts = [[k for k in FLAGS[1:] if row[k]] for _, row in data.iterrows()]
        base = ["DualNet" if on else "none" for on in data["dualnet"]]
        names = [
            "OCM" if b == "none" and not p else "\n+".join([b, *(x.upper() for x in p)])
            for b, p in zip(base, parts, strict=True)
        ]
        rows = [tuple(bool(v) for v in row) for row in data[list(FLAGS)].to_numpy()]
        known = list(published(FLAGS))
        order = sorted(range(len(rows)), key=lambda i: known.index(rows[i]) if rows[i] in known else len(known))
        x = np.arange(len(data))
        full = [all(rows[i]) for i in order]
        colours = [OURS if f else "#b9c4d0" for f in full]
        ax.bar(x, data["mean"].iloc[order], yerr=data["std"].iloc[order].fillna(0), color=colours, width=0.7,
               error_kw={"elinewidth": 0.8})  # fmt: skip
        if data["paper"].notna().any():
            ax.plot(x, data["paper"].iloc[order], linestyle="none", marker="_", markersize=14, markeredgewidth=1.6,
                    color=PAPER, label="paper")  # fmt: skip
            ax.legend(loc="upper left")
        lowest = float(np.nanmin([data["mean"].min(), data["paper"].min()]))
        ax.set_ylim(bottom=max(0.0, lowest - 6))
        ax.set_xticks(x, [names[i] for i in order], fontsize=6)
        ax.set_ylabel("Average accuracy (%)")
        ax.grid(axis="x", visible=False)
        caption = f"Parts of EMI on {_where(study.setting)} (mean, one sample standard deviation). The axis is cut."
        yield Drawing(_name("ablation", study.setting), "Ablation", caption, figure, data)


def alpha(grid: Grid) -> Iterator[Drawing]:
    """alpha by alpha_b as heat maps: ours, and the paper's beside it on its own setting."""
    for study in all_studies(grid, ALPHAS):
        data = _data(study)
        if data["alpha"].nunique() < 2 or data["alpha_b"].nunique() < 2:
            continue
        panels = [("ours", "mean")] + ([("paper", "paper")] if data["paper"].notna().any() else [])
        figure, axes = new_figure(NARROW * len(panels), 2.5, 1, len(panels))
        for ax, (title, column) in zip(axes, panels, strict=True):
            table = data.pivot(index="alpha", columns="alpha_b", values=column)
            values = table.to_numpy(dtype=float)
            image = ax.imshow(values, cmap=mpl.colormaps["viridis"], aspect="auto")
            ax.set_xticks(range(values.shape[1]), [f"{v:g}" for v in table.columns])
            ax.set_yticks(range(values.shape[0]), [f"{v:g}" for v in table.index])
            ax.set_xlabel(r"$\alpha_b$ (replay)")
            ax.set_ylabel(r"$\alpha$ (stream)")
            ax.set_title(title)
            ax.grid(False)
            low, high = image.get_clim()
            for i, j in np.ndindex(*values.shape):
                v = float(values[i, j])
                if v == v:
                    shade = (v - low) / (high - low) if high > low else 1.0
                    ax.text(j, i, f"{v:.1f}", ha="center", va="center", color="white" if shade < 0.6 else "black")
        caption = f"Accuracy by the thresholds of DMI on {_where(study.setting)}; each panel has its own colour scale."
        yield Drawing(_name("alpha", study.setting), "Thresholds of DMI", caption, figure, data)


def prototypes(grid: Grid) -> Iterator[Drawing]:
    """Accuracy against the samples per prototype."""
    for study in all_studies(grid, PROTOTYPES):
        data = _data(study).sort_values("n_proto")
        figure, (ax,) = new_figure(NARROW, 2.3)
        ax.errorbar(
            data["n_proto"],
            data["mean"],
            yerr=data["std"].fillna(0),
            color=OURS,
            marker="*",
            markersize=6,
            label="ours",
        )
        if data["paper"].notna().any():
            ax.plot(data["n_proto"], data["paper"], color=PAPER, marker="o", linestyle="--", label="paper")
        ax.set_xticks(data["n_proto"])
        ax.set_xlabel("$N_p$ (samples per prototype)")
        ax.set_ylabel("Average accuracy (%)")
        ax.legend()
        caption = f"Samples per prototype on {_where(study.setting)}; bars are one sample standard deviation."
        yield Drawing(_name("prototypes", study.setting), "Samples per prototype", caption, figure, data)


def readings_figure(grid: Grid) -> Iterator[Drawing]:
    """Each other reading of the paper against the default, paired; the paper's value as a line."""
    for setting in grid.settings:
        found = readings(grid, setting)
        if not found:
            continue
        base = grid.cell(Row("emi"), setting, spare=True).by_seed(ACCURACY)
        records: list[dict[str, Any]] = []
        for row, cell, changed in found:
            d = contrast(cell.by_seed(ACCURACY), base)
            change = ", ".join(f"{k}: {v}" for k, v in changed.items())
            records.append({"variant": row.variant, "change": change, "mean": d.mean, "low": d.low, "high": d.high,
                            "n": d.n, "paired": d.paired})  # fmt: skip
        data = pd.DataFrame(records)
        figure, (ax,) = new_figure(WIDE * 0.75, 0.8 + 0.24 * len(data))
        for y, r in enumerate(records):
            ax.plot([r["low"], r["high"]], [y, y], color=OURS, linewidth=1.6)
            ax.plot(r["mean"], y, color=OURS, marker="o")
        ax.axvline(0, color="black", linewidth=0.7)
        paper = reference.values("average_accuracy", reference.PAPER)
        hit = paper[
            (paper["method"] == "emi") & (paper["dataset"] == setting.dataset) & (paper["memory"] == setting.memory)
        ]
        if len(hit) and setting in grid.paper_settings:
            gap = float(hit["mean"].iloc[0]) - float(np.mean(list(base.values())))
            ax.axvline(gap, color=PAPER, linestyle="--", linewidth=1, label="the paper's value")
            ax.legend(loc="best")
            data["paper_minus_default"] = gap
        ax.set_yticks(range(len(data)), list(data["change"]))
        ax.set_ylim(len(data) - 0.5, -0.5)
        ax.set_xlabel("Accuracy minus the default's (points)")
        caption = (
            f"Other readings of EMI on {_where(setting)} against the default: paired differences, 95 % BCa intervals."
        )
        yield Drawing(f"readings_{setting.slug}", "Readings of EMI", caption, figure, data)
