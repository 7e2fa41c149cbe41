"""The figures: one function each, from the evidence to drawings with the data behind them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

from emi_bench.report.evidence import Evidence
from emi_bench.report.figures import anytime, curves, features, intervals, matrices, prediction, studies, tradeoffs
from emi_bench.report.figures.canvas import Drawing, save
from emi_bench.report.planned import FIGURES

__all__ = ["Drawing", "all_figures", "save"]

#: In the order of the page. A sweep can leave out those that have one of the names in FIGURES.
MAKERS: dict[str, Callable[[Evidence], Iterator[Drawing]]] = {
    "prediction": prediction.prediction,
    "incremental": curves.incremental,
    "anytime": anytime.over_steps,
    "memory": tradeoffs.memory,
    "cost": tradeoffs.cost,
    "budget": tradeoffs.budget,
    "differences": intervals.differences,
    "overall": intervals.overall,
    "forest": intervals.forest,
    "ablation": studies.ablation,
    "alpha": studies.alpha,
    "prototypes": studies.prototypes,
    "readings": studies.readings_figure,
    "matrices": matrices.heat_maps,
    "kde": features.kde,
    "tsne": features.tsne,
}


def all_figures(evidence: Evidence, paper: Container[str] = FIGURES) -> Iterator[Drawing]:
    """Every figure the store can serve, one at a time, so that only one is in memory. `paper`: which of the paper's."""
    for name, make in MAKERS.items():
        if name in paper or name not in FIGURES:
            yield from make(evidence)
