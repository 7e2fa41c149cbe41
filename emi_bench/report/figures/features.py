"""Features after the last task: densities on the unit circle (training images) and t-SNE (test images)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter, gaussian_filter1d

from emi_bench.report.axes import Row, Setting
from emi_bench.report.evidence import Evidence
from emi_bench.report.figures.canvas import WIDE, Drawing, hide_spare, new_figure
from emi_bench.report.model import Record

MOST = 2000  #: points a panel: more hide each other and cost minutes
SEED = 20250101
BINS, EDGE, WIDTH = 180, 1.3, 0.08  #: of the density pictures; WIDTH is the kernel's standard deviation
#: Nothing where there is nothing, so that the ground may be dark.
DENSITY = LinearSegmentedColormap.from_list("density", ["#2171b500", "#2171b5"])
Points = NDArray[np.float64]


def _sample(frame: pd.DataFrame, split: str) -> pd.DataFrame:
    part = frame[frame["split"] == split]
    return part.sample(MOST, random_state=SEED).sort_index() if len(part) > MOST else part


def _vectors(frame: pd.DataFrame) -> Points:
    return frame[[c for c in frame.columns if c[:1] == "f" and c[1:].isdigit()]].to_numpy(dtype=np.float64)


def _panels(evidence: Evidence, split: str) -> Iterator[tuple[Setting, list[tuple[Row, pd.DataFrame]]]]:
    """The first run with features of every row that has one."""
    grid, find = evidence.grid, evidence.features
    if find is None:
        return
    for setting in grid.settings:
        found: dict[Row, pd.DataFrame] = {}
        for row in grid.rows([setting], variants=True):
            for run in grid.cell(row, setting).runs:
                frame = find(run.run_id)
                if frame is not None and len(part := _sample(frame, split)) > 2:
                    found[row] = part
                    break
        if found:
            yield setting, list(found.items())


def on_circle(vectors: Points) -> Points:
    """(n,D) to the unit circle (n,2): two-dimensional features as they are, others by their two main directions."""
    x = vectors - vectors.mean(axis=0) if vectors.shape[1] > 2 else vectors
    if x.shape[1] > 2:
        _, _, axes = np.linalg.svd(x, full_matrices=False)
        # The sign of a main direction is arbitrary; the largest weight positive makes the picture repeatable.
        signs = np.sign(axes[np.arange(2), np.abs(axes[:2]).argmax(axis=1)])
        x = x @ (axes[:2] * signs[:, None]).T
    return np.asarray(x / (np.linalg.norm(x, axis=1, keepdims=True) + 1e-12))


def _ring() -> tuple[Points, Points]:
    angle = np.linspace(-np.pi, np.pi, 181)
    return np.cos(angle), np.sin(angle)


def _circle(ax: Axes, points: Points, title: str) -> None:
    # A binned Gaussian kernel of one width in both directions; a data-driven one would smear short arcs into stripes.
    counts, _, _ = np.histogram2d(points[:, 1], points[:, 0], bins=BINS, range=[[-EDGE, EDGE]] * 2, density=True)
    density = gaussian_filter(counts, WIDTH * BINS / (2 * EDGE))
    extent = (-EDGE, EDGE, -EDGE, EDGE)
    ax.imshow(density, origin="lower", extent=extent, cmap=DENSITY, interpolation="bilinear")
    ax.plot(*_ring(), color="#999999", linewidth=0.4)
    ax.set_title(title)
    ax.set_axis_off()


def _angles(ax: Axes, points: Points, tasks: NDArray[np.int64]) -> None:
    edges = np.linspace(-np.pi, np.pi, 241)
    colours = mpl.colormaps["viridis"]
    all_tasks = np.unique(tasks)
    for k, task in enumerate(all_tasks):
        angle = np.arctan2(points[tasks == task, 1], points[tasks == task, 0])
        counts, _ = np.histogram(angle, edges, density=True)
        density = gaussian_filter1d(counts, WIDTH / np.diff(edges)[0], mode="wrap")
        shade = colours(k / max(1, len(all_tasks) - 1) * 0.9)
        centres = (edges[1:] + edges[:-1]) / 2
        ax.plot(centres, density, color=shade, label=f"task {task}" if len(all_tasks) <= 6 else None)
    ax.set_xticks([-np.pi, 0, np.pi], ["−π", "0", "π"])
    ax.set_yticks([])


def kde(evidence: Evidence) -> Iterator[Drawing]:
    """A row a method: all tasks on the circle, the angles by task, and the first, middle and last task alone."""
    for setting, panels in _panels(evidence, "train"):
        figure, axes = new_figure(WIDE, 1.55 * len(panels) + 0.1, len(panels), 5)
        records: list[Record] = []
        for i, (row, frame) in enumerate(panels):
            line = axes[5 * i : 5 * i + 5]
            points, tasks = on_circle(_vectors(frame)), frame["task"].to_numpy(dtype=np.int64)
            _circle(line[0], points, f"{row.title}, all tasks")
            _angles(line[1], points, tasks)
            for ax, task in zip(line[2:], _three(np.unique(tasks)), strict=False):
                _circle(ax, points[tasks == task], f"task {task}")
            records += [
                {"method": row.method, "variant": row.variant, "task": t, "x": x, "y": y}
                for t, (x, y) in zip(tasks.tolist(), points.round(6).tolist(), strict=True)
            ]
        axes[5 * len(panels) - 4].set_xlabel("angle")
        if len(np.unique(panels[0][1]["task"])) <= 6:
            axes[1].legend(fontsize=5, loc="upper right")
        caption = (
            "Gaussian kernel density of training features after the last task, brought to the unit circle by their two "
            "main directions; the angles' density by task; the first, middle and last task alone."
        )
        yield Drawing(f"kde_{setting.slug}", f"Feature densities: {setting.title}", caption, figure, records)


def _three(tasks: Sequence[int] | NDArray[np.int64]) -> list[int]:
    return sorted({int(tasks[0]), int(tasks[len(tasks) // 2]), int(tasks[-1])})


def tsne(evidence: Evidence) -> Iterator[Drawing]:
    """t-SNE of test features (scikit-learn, seeded, PCA start), coloured by class."""
    for setting, panels in _panels(evidence, "test"):
        columns = min(4, len(panels))
        lines = -(-len(panels) // columns)
        figure, axes = new_figure(WIDE * columns / 4 if columns > 1 else 3.0, 2.05 * lines, lines, columns)
        hide_spare(axes, len(panels))
        records: list[Record] = []
        from sklearn.manifold import TSNE  # here: few stores have features, and it takes a second

        for ax, (row, frame) in zip(axes, panels, strict=False):
            x, labels = _vectors(frame), frame["label"].to_numpy()
            perplexity = float(min(30, max(2, (len(x) - 1) // 3)))
            start = "pca" if x.shape[1] > 1 else "random"
            xy = TSNE(2, perplexity=perplexity, init=start, random_state=SEED, n_jobs=1).fit_transform(x)
            classes = np.unique(labels)
            colours = mpl.colormaps["tab10" if len(classes) <= 10 else "turbo"]
            shade = np.searchsorted(classes, labels) / (10 if len(classes) <= 10 else max(1, len(classes) - 1))
            shades = colours(shade + (0.01 if len(classes) <= 10 else 0))
            ax.scatter(xy[:, 0], xy[:, 1], c=shades, s=2, linewidths=0, rasterized=True)
            ax.set_title(row.title)
            ax.set_xticks([])
            ax.set_yticks([])
            ax.spines[:].set_visible(False)
            records += [
                {"method": row.method, "variant": row.variant, "label": c, "x": a, "y": b}
                for c, (a, b) in zip(labels.tolist(), xy.astype(np.float64).round(3).tolist(), strict=True)
            ]
        caption = "t-SNE of the test features after the last task, one colour a class."
        yield Drawing(f"tsne_{setting.slug}", f"t-SNE: {setting.title}", caption, figure, records)
