"""Studies of one method's constants: runs found by the values in their config, not by what a sweep called them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from emi_bench import reference
from emi_bench.report.axes import Kind, Row, Setting, is_paper_setting
from emi_bench.report.cells import TableCell
from emi_bench.report.grid import Grid
from emi_bench.report.runs import Run

Point = tuple[Any, ...]
METHOD = "emi"


@dataclass(frozen=True)
class About:
    """What a study varies, and which of the paper's tables holds it."""

    kind: Kind
    keys: tuple[str, ...]
    values: type
    number: int

    def words(self, point: Point) -> str:
        """`DualNet+DMI`, `alpha=0.1, alpha_b=0.2`"""
        if self.values is bool:
            names = {k: k.upper() for k in self.keys} | {"dualnet": "DualNet"}
            return "+".join(names[k] for k, v in zip(self.keys, point, strict=True) if v) or "OCM"
        return ", ".join(f"{k}={v}" for k, v in zip(self.keys, point, strict=True))


PARTS = About("ablation", ("dualnet", "dmi", "rmi", "smi"), bool, 3)
ALPHAS = About("alpha", ("alpha", "alpha_b"), float, 4)
PROTOTYPES = About("prototypes", ("n_proto",), int, 5)
#: By the names that the reference files give them.
STUDIES: dict[str, About] = {a.kind: a for a in (PARTS, ALPHAS, PROTOTYPES)}


@dataclass(frozen=True)
class Study:
    """Cells by the values of its keys, everything else equal. `stand_in` names points served by another method,
    `seeds` those that all points were cut to because some have more in another sweep."""

    setting: Setting
    about: About
    points: Mapping[Point, TableCell]
    default: Point | None
    stand_in: Mapping[Point, Row]
    seeds: tuple[int, ...] = ()


def _rest(config: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return json.dumps({k: v for k, v in config.items() if k not in keys}, sort_keys=True, default=str)


def _distance(a: str, b: str) -> int:
    x, y = json.loads(a), json.loads(b)
    return sum(x.get(k) != y.get(k) for k in x.keys() | y.keys())


def study(grid: Grid, setting: Setting, about: About, method: str = METHOD) -> Study | None:
    """The cells of `method` in one column that differ in `keys` alone, or None where there are not two of them.

    The rest of the config is the default run's where there is one, else the one with the most points. A switch that
    is off may need other constants to change with it (EMI without DualNet), so for switches the nearest config serves.
    """
    keys = about.keys
    groups: dict[str, dict[Point, list[Run]]] = defaultdict(lambda: defaultdict(list))
    expected: dict[Point, int] = defaultdict(int)
    seeds: dict[Point, frozenset[int]] = defaultdict(frozenset)
    default: tuple[str, Point] | None = None
    for row in [Row(method), *(r for r in grid.variants(setting) if r.method == method)]:
        cell = grid.cell(row, setting)
        for run in cell.runs:
            if any(k not in run.config for k in keys):
                continue
            rest, point = _rest(run.config, keys), tuple(run.config[k] for k in keys)
            groups[rest][point].append(run)
            expected[point] = max(expected[point], cell.expected)
            seeds[point] |= cell.seeds
            if not row.variant:
                default = rest, point
    if not groups:
        return None
    base = default[0] if default else max(groups, key=lambda g: (len(groups[g]), g))
    points = dict(groups[base])
    if about is PARTS:
        for rest in sorted(groups, key=lambda g: (_distance(g, base), g)):
            for point, runs in groups[rest].items():
                if default is None or point != default[1]:
                    points.setdefault(point, runs)
    cells = {
        p: TableCell(tuple(sorted(runs, key=lambda r: r.seed)), expected[p], seeds[p]) for p, runs in points.items()
    }
    stand_in: dict[Point, Row] = {}
    nothing = (False,) * len(keys)
    if about is PARTS and nothing not in cells and (ocm := grid.cell(Row("ocm"), setting)).n and len(cells) > 1:
        # The paper's first ablation row is OCM's own cell (23.7): EMI with everything off is OCM.
        cells[nothing], stand_in[nothing] = ocm, Row("ocm")
    if len(cells) < 2:
        return None
    cells, cut = _alike(dict(sorted(cells.items())))
    return Study(setting, about, cells, default[1] if default else None, stand_in, cut)


def _alike(cells: dict[Point, TableCell]) -> tuple[dict[Point, TableCell], tuple[int, ...]]:
    """Points are compared over the seeds that the sweeps give to all of them: a cell that has more is cut."""
    shared = frozenset.intersection(*(cell.seeds for cell in cells.values()))
    if not shared or all(cell.seeds == shared for cell in cells.values()):
        return cells, ()
    cut = {
        point: TableCell(tuple(r for r in cell.runs if r.seed in shared), len(shared), shared)
        for point, cell in cells.items()
    }
    return {point: cell for point, cell in cut.items() if cell.n}, tuple(sorted(shared))


@cache
def published(about: About) -> dict[Point, float]:
    """The paper's value of each point of a study."""
    rows = reference.studies(f"table{about.number}").to_dict("records")
    return {tuple(about.values(row[k]) for k in about.keys): float(row["mean"]) for row in rows}


def is_study_setting(setting: Setting) -> bool:
    """Whether this is the column the paper's own studies use (CIFAR-100, M=1k)."""
    where = reference.settings()["study"]
    return is_paper_setting(setting) and (setting.dataset, setting.memory) == (where["dataset"], where["memory"])


def all_studies(grid: Grid, about: About) -> list[Study]:
    """The study in every column that has one, the paper's first."""
    found = [s for setting in grid.settings if (s := study(grid, setting, about)) is not None]
    return sorted(found, key=lambda s: not is_study_setting(s.setting))


def in_a_study(grid: Grid, row: Row, setting: Setting) -> bool:
    """Whether a variant is a point of the three studies, which have tables of their own."""
    if row.method != METHOD or row in grid.older:
        return False
    changed = set(grid.cell(row, setting).runs[0].constants)
    mine = grid.cell(row, setting).runs[0].config
    return any(set() < changed <= set(about.keys) for about in STUDIES.values()) or any(
        mine.get(k) is False for k in PARTS.keys
    )


def readings(grid: Grid, setting: Setting) -> dict[str, TableCell]:
    """What a shortfall of EMI may come from, by name: what it is built on, every other reading of the paper, another
    order of the classes. Nothing where no reading ran beside the default."""
    rows = [
        r for r in grid.variants(setting) if r.method == METHOD and any(c.constants for c in grid.cell(r, setting).runs)
    ]
    flips = [r for r in rows if not in_a_study(grid, r, setting)]
    if not flips or not grid.cell(Row(METHOD), setting, spare=True).n:
        return {}
    found, bare = {"OCM": grid.cell(Row("ocm"), setting, spare=True)}, {k: k == "dualnet" for k in PARTS.keys}
    for row in sorted(rows, key=lambda r: r in flips):
        cell = grid.cell(row, setting)
        if row in flips:
            found[", ".join(f"{k}: {v}" for k, v in cell.runs[0].constants.items())] = cell
        elif bare.items() <= cell.runs[0].config.items():
            found["DualNet alone"] = cell
    for other in grid.settings:
        kin = replace(other, protocol=setting.protocol) == setting
        odd = dict(set(other.protocol) - set(setting.protocol))
        if kin and odd.keys() == {"class_order"}:
            found[f"class_order: {odd['class_order']}"] = grid.cell(Row(METHOD), other, spare=True)
    return {name: cell for name, cell in found.items() if cell.n}
