"""Published against ours, cell by cell, with a verdict that says what it rests on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from numpy.typing import ArrayLike

from emi_bench import reference
from emi_bench.report.axes import ACCURACY, FORGETTING, FORGETTING_RAPTOR, Metric, Row
from emi_bench.report.cells import TableCell
from emi_bench.report.grid import Grid
from emi_bench.report.model import Record
from emi_bench.report.statistics import NAN, Estimate, estimate, holm, independent, t_quantile
from emi_bench.report.studies import STUDIES, Study, is_study_setting, published

Verdict = Literal["agrees", "above", "below", "too few runs", "not run"]
VERDICTS: tuple[Verdict, ...] = ("agrees", "above", "below", "too few runs", "not run")
JUDGED: tuple[Verdict, ...] = VERDICTS[:3]
STUDY_TABLES = ("table3", "table4", "table5")
ROUNDING = 0.05  #: a value printed with one decimal stands for this much on either side

RULE = (
    "Verdict: `agrees` where the 95 % Welch interval of ours minus theirs, give or take the rounding (0.05), holds "
    "zero; else `above` or `below` (ours against theirs). Fewer than three runs give no verdict. The published ± is "
    "read as the standard deviation of its runs, as the caption says; read as the half-width of a 95 % interval of "
    "the mean, as the programs of several of its baselines print it, it gives the verdict beside it. Where no ± was "
    "printed ours stands in for it; a value without a number of runs counts as one run. p is of the same test, "
    "adjusted by Holm over all judged cells of the paper."
)


@dataclass(frozen=True)
class Comparison:
    """One published value beside ours, percent. `difference` is ours minus theirs by the first reading of the ±."""

    source: str
    place: str
    metric: str
    label: str
    method: str
    dataset: str
    memory: int
    published: float
    published_std: float
    mean: float
    n: int
    difference: Estimate
    other: float  #: our value by the other forgetting formula
    verdict: Verdict
    verdict_ci95: Verdict  #: with the published ± read as the half-width of a 95 % interval
    p: float
    note: str = ""
    after_each: str = ""  #: our mean accuracy over the tasks seen, after each task
    p_holm: float = NAN

    @property
    def delta(self) -> float:
        return self.mean - self.published

    @property
    def record(self) -> Record:
        told = {k: v for k, v in vars(self).items() if k != "difference"}
        return told | {"delta": self.delta, "low": self.difference.low, "high": self.difference.high}


def minus(values: ArrayLike, published: float, std: float, n: float, reading: str = "std") -> Estimate:
    """Ours minus a published mean of n runs, both uncertainties counted. Without a ± the standard deviation is ours,
    with its degrees of freedom; without a count it is of one run.

    >>> x = [49.0, 50.0, 51.0]
    >>> [round(minus(x, 50.0, 1.0, 10, reading).se, 3) for reading in ("std", "ci95")]
    [0.658, 0.727]
    >>> one = minus(x, 50.0, NAN, 1)
    >>> round(one.se, 3), one.df
    (1.155, 2.0)
    """
    ours, runs = estimate(values), int(n) if n == n else 1
    if std == std and runs > 1:
        factor = {"std": runs**-0.5, "ci95": 1 / t_quantile(runs - 1)}[reading]
        both = independent([(1.0, ours), (-1.0, Estimate(published, std * factor, runs - 1.0, runs))])
        return replace(both, n=ours.n)
    return Estimate(ours.mean - published, ours.se * (1 + ours.n / runs) ** 0.5, ours.df, ours.n, paired=False)


def verdict(difference: Estimate) -> Verdict:
    """
    >>> verdict(Estimate(0.4, 0.2, 9.0, 10)), verdict(Estimate(0.6, 0.2, 9.0, 10)), verdict(Estimate(0.4, NAN, 1.0, 2))
    ('agrees', 'above', 'too few runs')
    """
    if difference.n == 0:
        return "not run"
    if not difference.enough:
        return "too few runs"
    # A hair more than the rounding: 57.1 + 0.05 must not fail by the last bit.
    if difference.low - ROUNDING - 1e-9 <= 0 <= difference.high + ROUNDING + 1e-9:
        return "agrees"
    return "above" if difference.mean > 0 else "below"


def _one(cell: TableCell, metric: Metric, label: str, row: dict[Any, Any]) -> Comparison:
    values = cell.sample(metric)
    told = float(row["mean"]), float(row.get("std", NAN)), float(row.get("n", NAN))
    by_std, by_ci95 = (minus(values, *told, reading) for reading in ("std", "ci95"))
    others = cell.sample(FORGETTING_RAPTOR) if metric is FORGETTING else values[:0]
    return Comparison(
        row["source"], row["place"], metric.name, label, row["method"], row["dataset"], int(row["memory"]), *told[:2],
        estimate(values).mean, by_std.n, by_std, estimate(others).mean, verdict(by_std), verdict(by_ci95),
        by_std.against(0.0, ROUNDING), note if isinstance(note := row.get("note"), str) else "",
        ", ".join(f"{a:.1f}" for a in cell.curves().mean(axis=0)) if metric is ACCURACY and cell.n else "",
    )  # fmt: skip


def comparisons(grid: Grid, studies: Mapping[str, Sequence[Study]]) -> list[Comparison]:
    """Every published cell whose column the store can hold: Table I and II, other sources' values, Table III-V."""
    columns = {(s.dataset, s.n_tasks, s.memory): s for s in grid.paper_settings}
    rows = {row.method for row in grid.rows(grid.paper_settings)} if columns else set()
    out = []
    for metric in (ACCURACY, FORGETTING):
        for row in reference.values(metric.name).dropna(subset=["memory"]).to_dict("records"):
            setting = columns.get((str(row["dataset"]), int(row["n_tasks"]), int(row["memory"])))
            if setting is not None and row["method"] in rows:
                method = grid.row(str(row["method"]))
                out.append(_one(grid.cell(method, setting), metric, f"{method.title}, {setting.title}", row))
    found = out + _studies(grid, studies)
    adjusted = iter(holm([c.p for c in found if c.source == reference.PAPER]))
    return [replace(c, p_holm=next(adjusted)) if c.source == reference.PAPER else c for c in found]


def _studies(grid: Grid, studies: Mapping[str, Sequence[Study]]) -> list[Comparison]:
    setting = next((s for s in grid.paper_settings if is_study_setting(s)), None)
    if setting is None:
        return []
    out = []
    for name, about in STUDIES.items():
        found = next((s for s in studies[name] if s.setting == setting), None)
        for point, value in published(about).items():
            cell = (found.points.get(point) if found else None) or TableCell((), grid.expected(setting))
            row = {"source": reference.PAPER, "place": f"table{about.number}", "method": "emi", "mean": value,
                   "dataset": setting.dataset, "memory": setting.memory, "n": reference.settings()["runs"]}  # fmt: skip
            out.append(_one(cell, ACCURACY, f"EMI {about.words(point)}", row))
    return out


def tally(found: Iterable[Comparison]) -> dict[Verdict, int]:
    """How often each verdict."""
    counts = Counter(c.verdict for c in found)
    return {v: counts.get(v, 0) for v in VERDICTS}


def by_method(found: Iterable[Comparison]) -> dict[Row, dict[Verdict, int]]:
    """The same per method, in the paper's order; the paper's own values only."""
    mine = [c for c in found if c.source == reference.PAPER and c.place in ("table1", "table2")]
    rows = sorted({Row(c.method) for c in mine}, key=lambda r: r.order)
    return {r: tally(c for c in mine if c.method == r.method) for r in rows}


def headline(found: Sequence[Comparison]) -> str:
    """The strip over the table."""
    mine = [c for c in found if c.source == reference.PAPER]
    counts = tally(mine)
    judged = sum(counts[v] for v in JUDGED)
    rest = f"{counts['too few runs']} cells have too few runs, {counts['not run']} did not run."
    if not judged:
        return f"No cell can be judged against the paper: {rest}"
    certain = sum(c.p_holm < 0.05 for c in mine)
    results = {(*_ours(c), c.label if c.place in STUDY_TABLES else "") for c in mine if c.verdict in JUDGED}
    if len(results) < judged:
        rest += f" A method without a memory stands in every memory column: these cells hold {len(results)} results."
    return (
        f"{counts['agrees']} of {judged} judged cells agree with the paper, {counts['above']} are above, "
        f"{counts['below']} below; chance alone would put about {0.05 * judged:.0f} outside, and {certain} stay "
        f"outside when adjusted for the number of cells. {rest}"
    )


def several_sources(found: Iterable[Comparison]) -> list[list[Comparison]]:
    """Cells of ours that more than the paper has a value for, the paper's first. A run without a memory is one cell."""
    cells: dict[tuple[object, ...], dict[str, Comparison]] = {}
    for c in found:
        if c.n and c.place not in STUDY_TABLES:
            cells.setdefault(_ours(c), {}).setdefault(c.source, c)
    return [list(by.values()) for by in cells.values() if by.keys() - {reference.PAPER}]


def _ours(c: Comparison) -> tuple[object, ...]:
    """Which runs and which number of theirs is compared, of Table I or II."""
    return c.method, c.dataset, c.memory if Row(c.method).uses_memory else 0, c.metric
