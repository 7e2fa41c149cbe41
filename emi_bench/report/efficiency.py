"""Which runs Table VI's times are from: those measured one at a time, where there are such."""

from __future__ import annotations

from emi_bench import reference
from emi_bench.report.axes import Row, Setting
from emi_bench.report.cells import TableCell
from emi_bench.report.grid import Grid


def efficiency_rows() -> list[Row]:
    """The methods whose cost the paper prints."""
    return [Row(m) for m in reference.settings()["efficiency"]["methods"]]


def _alone(grid: Grid, row: Row, setting: Setting) -> TableCell:
    """The runs of the seeds that sweeps/efficiency.yaml keeps for itself."""
    seeds = reference.settings()["efficiency"]["seeds"]
    runs = grid.cell(row, setting, spare=True).runs
    return TableCell(tuple(r for r in runs if r.seed in seeds), len(seeds))


def measured_alone(grid: Grid, setting: Setting) -> bool:
    """Whether a method of the column was measured one run at a time."""
    return any(_alone(grid, row, setting).n for row in efficiency_rows())


def efficiency_setting(grid: Grid) -> Setting | None:
    """CIFAR-10 in the paper's protocol at the memory where most of its three methods were measured, one run at a time
    if any were (the paper names no memory)."""
    fits = [s for s in grid.paper_settings if s.dataset == reference.settings()["efficiency"]["dataset"]]
    alone = {s: sum(_alone(grid, row, s).n for row in efficiency_rows()) for s in fits}
    every = {s: sum(grid.cell(row, s).n for row in efficiency_rows()) for s in fits}
    if not any(alone.values()) and not any(every.values()):
        return None
    return max(fits, key=lambda s: (alone[s], every[s], s.memory))


def cost_cell(grid: Grid, row: Row, setting: Setting) -> TableCell:
    """The runs behind a time of Table VI.

    As soon as one method of the column was measured alone, none is printed from runs that may have shared a card: such
    times would stand beside each other and could not be compared.
    """
    return _alone(grid, row, setting) if measured_alone(grid, setting) else grid.cell(row, setting)
