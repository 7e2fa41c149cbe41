"""The figures: one function each, from the grid to a drawing with the data behind it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

from emi_bench.report.figures import curves, evidence, features, matrices, studies, tradeoffs
from emi_bench.report.figures.canvas import Drawing, save, small_png
from emi_bench.report.figures.features import FeatureFinder
from emi_bench.report.grid import Grid
from emi_bench.report.planned import FIGURES

__all__ = ["Drawing", "FeatureFinder", "all_figures", "save", "small_png"]


def all_figures(
    grid: Grid, features_of: FeatureFinder | None = None, paper: Container[str] = FIGURES
) -> Iterator[Drawing]:
    """Every figure the store can serve, one at a time, so that only one is in memory. `paper`: which of the paper's."""
    makers: list[Callable[[Grid], Iterator[Drawing]]] = [
        tradeoffs.memory, tradeoffs.cost, evidence.differences_figure, evidence.overall_figure, evidence.forest,
        studies.ablation, studies.alpha, studies.prototypes, studies.readings_figure, matrices.heat_maps,
    ]  # fmt: skip
    if "incremental" in paper:
        yield from curves.incremental(grid)
    for make in makers:
        yield from make(grid)
    if "kde" in paper and features_of is not None:
        yield from features.kde(grid, features_of)
    if "tsne" in paper and features_of is not None:
        yield from features.tsne(grid, features_of)
