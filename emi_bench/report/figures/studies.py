"""Studies of EMI's constants: the parts, the two thresholds, the prototype size, and the readings of the paper."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np

from emi_bench import reference
from emi_bench.report.axes import ACCURACY, Row, Setting, apart
from emi_bench.report.cells import summarize
from emi_bench.report.evidence import Evidence
from emi_bench.report.figures.canvas import INK, NARROW, PAPER, WIDE, Drawing, new_figure, panel_title
from emi_bench.report.statistics import NAN
from emi_bench.report.studies import ALPHAS, METHOD, PARTS, PROTOTYPES, Study, is_study_setting, published, readings

EMI, PUBLISHED = Row(METHOD).known.colour, "#404040"


def _name(kind: str, setting: Setting) -> str:
    return kind if is_study_setting(setting) else f"{kind}_{setting.slug}"


def _data(study: Study) -> list[dict[str, Any]]:
    paper = published(study.about) if is_study_setting(study.setting) else {}
    return [
        dict(zip(study.about.keys, point, strict=True))
        | {"mean": s.mean, "std": s.spread, "n": s.n, "paper": paper.get(point, NAN)}
        for point, cell in study.points.items()
        if (s := summarize(cell, ACCURACY))
    ]


def _column(data: list[dict[str, Any]], name: str) -> np.ndarray:
    return np.array([d[name] for d in data], dtype=float)


def ablation(evidence: Evidence) -> Iterator[Drawing]:
    """A point for every set of parts, the paper's value as a mark. No bars: their axis would have to begin at zero."""
    known = list(published(PARTS))
    for study in evidence.studies[PARTS.kind]:
        data = _data(study)
        points = [tuple(bool(d[k]) for k in PARTS.keys) for d in data]
        order = sorted(range(len(data)), key=lambda i: known.index(points[i]) if points[i] in known else len(known))
        shown = [data[i] for i in order]
        names = ["\n+".join(["DualNet" if d["dualnet"] else "none", *(k.upper() for k in PARTS.keys[1:] if d[k])])
                 if any(d[k] for k in PARTS.keys) else "OCM" for d in shown]  # fmt: skip
        figure, (ax,) = new_figure(NARROW + 1.2, 2.6)
        x, paper = np.arange(len(data)), _column(shown, "paper")
        if not np.isnan(paper).all():
            ax.plot(x, paper, linestyle="none", marker="_", markersize=14, markeredgewidth=1.6, color=PUBLISHED,
                    label="paper")  # fmt: skip
            ax.legend(loc="upper left")
        partial = [d["n"] < study.points[points[i]].expected for i, d in zip(order, shown, strict=True)]
        for at, i, d, part in zip(x, order, shown, partial, strict=True):
            ax.errorbar(at, d["mean"], yerr=np.nan_to_num(d["std"]), color=EMI if all(points[i]) else "#5b6b7b",
                        marker="o", markersize=5, fillstyle="none" if part else "full", elinewidth=1)  # fmt: skip
        ax.set_xlim(-0.6, len(data) - 0.4)
        ax.set_xticks(x, names, fontsize=6)
        ax.set_ylabel("Average accuracy (%)")
        ax.grid(axis="x", visible=False)
        hollow = " Hollow marks have fewer runs than planned." if any(partial) else ""
        caption = f"Parts of EMI on {study.setting.title} (mean, one sample standard deviation).{hollow}"
        yield Drawing(_name("ablation", study.setting), "Ablation", caption, figure, data)


def alpha(evidence: Evidence) -> Iterator[Drawing]:
    """alpha by alpha_b as heat maps: ours, and the paper's beside it on its own setting."""
    for study in evidence.studies[ALPHAS.kind]:
        data = _data(study)
        alphas, alphas_b = (sorted({d[k] for d in data}) for k in ALPHAS.keys)
        if len(alphas) < 2 or len(alphas_b) < 2:
            continue
        panels = [("ours", "mean")] + ([("paper", "paper")] if not np.isnan(_column(data, "paper")).all() else [])
        figure, axes = new_figure(NARROW * len(panels), 2.5, 1, len(panels))
        for ax, (title, column) in zip(axes, panels, strict=True):
            values = np.full((len(alphas), len(alphas_b)), NAN)
            for d in data:
                values[alphas.index(d["alpha"]), alphas_b.index(d["alpha_b"])] = d[column]
            image = ax.imshow(values, cmap=mpl.colormaps["viridis"], aspect="auto")
            ax.set_xticks(range(values.shape[1]), [f"{v:g}" for v in alphas_b])
            ax.set_yticks(range(values.shape[0]), [f"{v:g}" for v in alphas])
            ax.set_xlabel(r"$\alpha_b$ (replay)")
            ax.set_ylabel(r"$\alpha$ (stream)")
            ax.set_title(title)
            ax.grid(False)
            low, high = image.get_clim()
            for i, j in np.ndindex(*values.shape):
                v = float(values[i, j])
                if v == v:
                    shade = (v - low) / (high - low) if high > low else 1.0
                    ax.text(j, i, f"{v:.1f}", ha="center", va="center", color=PAPER if shade < 0.6 else INK)
        caption = f"Accuracy by the thresholds of DMI on {study.setting.title}; each panel has its own colour scale."
        yield Drawing(_name("alpha", study.setting), "Thresholds of DMI", caption, figure, data)


def prototypes(evidence: Evidence) -> Iterator[Drawing]:
    """Accuracy against the samples per prototype."""
    for study in evidence.studies[PROTOTYPES.kind]:
        data = sorted(_data(study), key=lambda d: d["n_proto"])
        figure, (ax,) = new_figure(NARROW, 2.3)
        x, std, paper = _column(data, "n_proto"), np.nan_to_num(_column(data, "std")), _column(data, "paper")
        ax.errorbar(x, _column(data, "mean"), yerr=std, color=EMI, marker="*", markersize=6, label="ours")
        if not np.isnan(paper).all():
            ax.plot(x, paper, color=PUBLISHED, marker="o", linestyle="--", label="paper")
        ax.set_xticks(x)
        ax.set_xlabel("$N_p$ (samples per prototype)")
        ax.set_ylabel("Average accuracy (%)")
        ax.legend()
        caption = f"Samples per prototype on {study.setting.title}; bars are one sample standard deviation."
        yield Drawing(_name("prototypes", study.setting), "Samples per prototype", caption, figure, data)


def readings_figure(evidence: Evidence) -> Iterator[Drawing]:
    """What EMI is built on and each other reading of the paper against the default, paired: a panel a column."""
    grid = evidence.grid
    found = {s: cells for s in grid.settings if (cells := readings(grid, s))}
    if not found:
        return
    names = list(dict.fromkeys(name for cells in found.values() for name in cells))
    printed = {(c.dataset, c.memory): c.published for c in evidence.compared
               if (c.source, c.place, c.method) == (reference.PAPER, "table1", METHOD)}  # fmt: skip
    records: list[dict[str, Any]] = []
    figure, axes = new_figure(WIDE, 0.8 + 0.2 * len(names), 1, len(found), sharey=True)
    differs = apart(found)
    for ax, (setting, cells) in zip(axes, found.items(), strict=True):
        default = grid.cell(Row(METHOD), setting, spare=True).sample(ACCURACY)
        theirs = printed.get((setting.dataset, setting.memory), NAN) if setting in grid.paper_settings else NAN
        gap = theirs - float(default.mean())
        for name, cell in cells.items():
            d, y = evidence.against_default(cell, Row(METHOD), setting), names.index(name)
            assert d is not None  # without a default there are no readings
            ax.plot([d.low, d.high], [y, y], color=EMI, linewidth=1.6)
            ax.plot(d.mean, y, color=EMI, marker="o", fillstyle="full" if d.paired else "none")
            records.append({"dataset": setting.dataset, "memory": setting.memory, "change": name, "mean": d.mean,
                            "low": d.low, "high": d.high, "n": d.n, "paired": d.paired,
                            "paper_minus_default": gap})  # fmt: skip
        ax.axvline(0, color="black", linewidth=0.7)
        if gap == gap:
            ax.axvline(gap, color=PUBLISHED, linestyle="--", linewidth=1, label="the paper's EMI")
        ax.set_title(panel_title(setting, differs))
        ax.set_xlabel("Accuracy minus the default's (points)")
    axes[0].set_yticks(range(len(names)), names)
    axes[0].set_ylim(len(names) - 0.5, -0.5)
    if axes[0].get_legend_handles_labels()[0]:
        axes[0].legend(loc="best")
    unpaired = "" if all(r["paired"] for r in records) else " Hollow marks are unpaired: too few shared seeds."
    caption = (
        "What EMI is built on and other readings of the paper against its default: mean paired differences, 95 % t "
        f"intervals, none below three seeds.{unpaired}"
    )
    yield Drawing("readings", "Readings of EMI", caption, figure, records)
