"""The figures: one function each, from the grid to a drawing with the data behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from emi_bench.report.figures import curves, evidence, features, matrices, studies, tradeoffs
from emi_bench.report.figures.canvas import Drawing, save, small_png
from emi_bench.report.figures.features import FeatureFinder
from emi_bench.report.grid import Grid

__all__ = ["Drawing", "FeatureFinder", "all_figures", "save", "small_png"]


def all_figures(grid: Grid, features_of: FeatureFinder | None = None) -> Iterator[Drawing]:
    """Every figure the store can serve, one at a time, so that only one is in memory."""
    makers: list[Callable[[Grid], Iterator[Drawing]]] = [
        curves.incremental, tradeoffs.memory, tradeoffs.cost, evidence.differences_figure, evidence.overall_figure,
        evidence.forest, studies.ablation, studies.alpha, studies.prototypes, studies.readings_figure,
        matrices.heat_maps,
    ]  # fmt: skip
    for make in makers:
        yield from make(grid)
    if features_of is not None:
        yield from features.kde(grid, features_of)
        yield from features.tsne(grid, features_of)
