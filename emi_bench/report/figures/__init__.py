"""The figures: one function each, from the evidence to drawings with the data behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import get_args

from emi_bench.report.evidence import Evidence
from emi_bench.report.figures import anytime, curves, features, intervals, matrices, prediction, studies, tradeoffs
from emi_bench.report.figures.canvas import Drawing, save
from emi_bench.sweep.grammar.model import Figure

__all__ = ["Drawing", "all_figures", "save"]

#: In the order of the page. A sweep can leave out those whose name the grammar has.
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


def all_figures(evidence: Evidence) -> Iterator[Drawing]:
    """Every figure the store can serve and the sweeps ask for, one at a time, so that only one is in memory."""
    asked = evidence.grid.scope.planned.figures
    for name, make in MAKERS.items():
        if not asked or name in asked or name not in get_args(Figure):
            yield from make(evidence)
