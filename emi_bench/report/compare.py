"""Published against ours, cell by cell, with a verdict that says what it rests on."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from scipy import stats

from emi_bench import reference
from emi_bench.report.axes import (
    ACCURACY,
    FORGETTING,
    FORGETTING_RAPTOR,
    Metric,
    Row,
    Setting,
    dataset_title,
    memory_title,
)
from emi_bench.report.grid import Cell, Grid
from emi_bench.report.statistics import ENOUGH, mean_interval
from emi_bench.report.studies import ALPHAS, FLAGS, PROTOTYPES, is_study_setting, published, study

Verdict = Literal["agrees", "above", "below", "too few runs", "not run"]
VERDICTS: tuple[Verdict, ...] = ("agrees", "above", "below", "too few runs", "not run")
ROUNDING = 0.05  #: a value printed with one decimal stands for this much on either side

RULE = (
    "Verdict: `agrees` where the published value, give or take its rounding (0.05), lies in the 95 % t interval of our "
    "mean; else `above` or `below` (ours against theirs). Fewer than three runs give no verdict. `welch` is the 95 % "
    "interval of the difference that also allows for the published spread, where one was printed."
)


@dataclass(frozen=True)
class Comparison:
    """One published value beside ours. Percent; `low`, `high` are the 95 % t interval of our mean."""

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
    low: float
    high: float
    welch_low: float
    welch_high: float
    other: float  #: our value by the other forgetting formula
    verdict: Verdict

    @property
    def delta(self) -> float:
        return self.mean - self.published


def verdict(value: float, n: int, low: float, high: float) -> Verdict:
    """
    >>> verdict(57.1, 10, 56.0, 58.0), verdict(57.1, 10, 57.16, 58.0), verdict(57.1, 2, 0.0, 0.0)
    ('agrees', 'above', 'too few runs')
    """
    if n == 0:
        return "not run"
    if n < ENOUGH:
        return "too few runs"
    # A hair more than the rounding: 57.1 + 0.05 must not fail by the last bit.
    if low - ROUNDING - 1e-9 <= value <= high + ROUNDING + 1e-9:
        return "agrees"
    return "above" if low > value else "below"


def _welch(mean: float, std: float, n: int, published: float, published_std: float, m: float) -> tuple[float, float]:
    if n < ENOUGH or published_std != published_std or m != m:
        return float("nan"), float("nan")
    a, b = std**2 / n, published_std**2 / m
    if a + b == 0:
        return mean - published, mean - published
    df = (a + b) ** 2 / (a**2 / (n - 1) + b**2 / (m - 1))
    half = float(stats.t.ppf(0.975, df)) * (a + b) ** 0.5
    return mean - published - half, mean - published + half


def _one(cell: Cell, metric: Metric, label: str, row: dict[Any, Any]) -> Comparison:
    values = cell.sample(metric)
    n = len(values)
    mean = float(values.mean()) if n else float("nan")
    low, high = mean_interval(values)
    value, std = float(row["mean"]), float(row.get("std", float("nan")))
    spread = float(values.std(ddof=1)) if n > 1 else float("nan")
    welch = _welch(mean, spread, n, value, std, float(row.get("n", float("nan"))))
    others = cell.sample(FORGETTING_RAPTOR) if metric is FORGETTING else values[:0]
    other = float(others.mean()) if len(others) else float("nan")
    return Comparison(
        row["source"], row["place"], metric.name, label, row["method"], row["dataset"], int(row["memory"]), value, std,
        mean, n, low, high, *welch, other, verdict(value, n, low, high),
    )  # fmt: skip


def comparisons(grid: Grid) -> list[Comparison]:
    """Every published cell whose column the store can hold: Table I and II, other sources' values, Table III-V."""
    if not grid.paper_settings:
        return []
    columns: dict[tuple[str, int], Setting] = {(s.dataset, s.memory): s for s in grid.paper_settings}
    out = []
    for metric in (ACCURACY, FORGETTING):
        frame = reference.values(metric.name).dropna(subset=["memory"])
        for row in frame.to_dict("records"):
            setting = columns.get((str(row["dataset"]), int(row["memory"])))
            if setting is not None:
                method = Row(str(row["method"]))
                label = f"{method.title}, {dataset_title(setting.dataset)} {memory_title(setting.memory)}"
                out.append(_one(grid.cell(method, setting), metric, label, row))
    return out + _studies(grid)


def _studies(grid: Grid) -> list[Comparison]:
    setting = next((s for s in grid.paper_settings if is_study_setting(s)), None)
    if setting is None:
        return []
    out = []
    for keys, place in ((FLAGS, "table3"), (ALPHAS, "table4"), (PROTOTYPES, "table5")):
        found = study(grid, setting, keys)
        for point, value in published(keys).items():
            cell = (found.points.get(point) if found else None) or Cell((), grid.expected(setting))
            on = [k for k, v in zip(keys, point, strict=True) if v] if keys == FLAGS else []
            words = (
                "+".join(on) or "OCM"
                if keys == FLAGS
                else ", ".join(f"{k}={v}" for k, v in zip(keys, point, strict=True))
            )
            row = {"source": reference.PAPER, "place": place, "method": "emi", "dataset": setting.dataset,
                   "memory": setting.memory, "mean": value}  # fmt: skip
            out.append(_one(cell, ACCURACY, f"EMI {words}", row))
    return out


def tally(found: Iterable[Comparison]) -> dict[Verdict, int]:
    """How often each verdict."""
    counts = Counter(c.verdict for c in found)
    return {v: counts.get(v, 0) for v in VERDICTS}


def by_method(found: Iterable[Comparison]) -> dict[str, dict[Verdict, int]]:
    """The same per method, in the paper's order; the paper's own values only."""
    mine = [c for c in found if c.source == reference.PAPER and c.place in ("table1", "table2")]
    names = sorted({c.method for c in mine}, key=lambda m: Row(m).order)
    return {m: tally(c for c in mine if c.method == m) for m in names}


def headline(found: Sequence[Comparison]) -> str:
    """The strip over the table."""
    mine = [c for c in found if c.source == reference.PAPER]
    counts = tally(mine)
    judged = counts["agrees"] + counts["above"] + counts["below"]
    return (
        f"{counts['agrees']} of {judged} judged cells agree with the paper within the 95 % interval of our mean; "
        f"{counts['above']} above, {counts['below']} below, {counts['too few runs']} with too few runs, "
        f"{counts['not run']} not run."
    )


def comparisons_csv(found: Sequence[Comparison]) -> str:
    """One row a published value."""
    names = [
        "source", "place", "metric", "label", "method", "dataset", "memory", "published", "published_std", "mean", "n",
        "low", "high", "delta", "welch_low", "welch_high", "other", "verdict",
    ]  # fmt: skip
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for c in found:
        values = (getattr(c, n) for n in names)
        writer.writerow(
            ["" if isinstance(v, float) and v != v else repr(v) if isinstance(v, float) else v for v in values]
        )
    return out.getvalue()
