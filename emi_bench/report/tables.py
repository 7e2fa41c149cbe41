"""The tables: the paper's I and II in its layout, the same for any other grid, and the studies III-VI."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from emi_bench.report.axes import (
    ACCURACY,
    MEMORY,
    PRINTED,
    TIME,
    Metric,
    Row,
    Setting,
    Spread,
    apart,
    dataset_title,
    memory_title,
)
from emi_bench.report.captions import caption, protocol_words
from emi_bench.report.cells import TableCell, summarize
from emi_bench.report.efficiency import cost_cell, efficiency_rows, efficiency_setting, measured_alone
from emi_bench.report.grid import Grid
from emi_bench.report.latex import escape
from emi_bench.report.model import Line, Table, Text, Value, mark_best
from emi_bench.report.studies import ALPHAS, PARTS, PROTOTYPES, Point, Study, in_a_study, is_study_setting, published

Key = tuple[tuple[str, str | int | float], ...]
SHARED = " The times are of runs that may have shared a card: sweeps/efficiency.yaml, one run at a time, has not run."
ROMAN = {1: "I", 2: "II", 3: "III", 4: "IV", 5: "V", 6: "VI"}


def _group_title(setting: Setting, differs: str) -> Text:
    title = dataset_title(setting.dataset)
    tasks = f"{setting.n_tasks} tasks" + (f", {differs}" if differs else "")
    return Text(f"{title} ({tasks})", rf"\textbf{{{escape(title)}}} ({escape(tasks)})")


def _columns(settings: Sequence[Setting]) -> tuple[tuple[Text, tuple[Text, ...]], ...]:
    differs = apart(settings)
    groups = []
    for _, members in groupby(settings, key=lambda s: s.family):
        inside = list(members)
        titles = (Text(t, f"${t}$" if "=" in t else t) for t in (memory_title(s.memory) for s in inside))
        groups.append((_group_title(inside[0], differs[inside[0]]), tuple(titles)))
    return tuple(groups)


def _key(row: Row, setting: Setting) -> Key:
    return (
        ("method", row.method), ("variant", row.variant), ("dataset", setting.dataset), ("n_tasks", setting.n_tasks),
        ("memory", setting.memory),
    )  # fmt: skip


def _value(cell: TableCell, metric: Metric, spread: Spread, key: Key, digits: int = 1) -> Value:
    return Value(summarize(cell, metric, spread), (*key, ("metric", metric.name)), digits=digits)


def _blocks(lines: Iterable[Line]) -> list[list[Line]]:
    """Bounds, the paper's rows, methods beyond it, ours; without methods beyond it ours ends the paper's rows."""
    blocks: list[list[Line]] = [[], [], [], []]
    for line in lines:
        assert line.row is not None
        role = line.row.role
        at = 0 if role == "bound" else 3 if role == "ours" else 1 if line.row.known.place is not None else 2
        blocks[at].append(line)
    bounds, paper, beyond, ours = blocks
    if not (paper and beyond):
        return [b for b in (bounds, paper + beyond + ours) if b]
    return [b for b in blocks if b]


def method_table(
    grid: Grid, settings: Sequence[Setting], rows: Sequence[Row], metric: Metric, spread: Spread, table: Table
) -> Table:
    """Methods by settings: the bounds above the rule, ours last."""
    if table.kind == "forgetting":
        bounds = {"bound"} if table.number else set()  # the paper's Table II is without them
        rows = [r for r in rows if r.role not in bounds and not any(grid.joint(r, s) for s in settings)]
    lines = []
    for row in rows:
        values = tuple(_value(grid.cell(row, s), metric, spread, _key(row, s)) for s in settings)
        ours = row.role == "ours" and not row.variant and table.number is not None
        title = Text(row.title + (" (Ours)" if ours else ""))
        lines.append(Line((title,), values, "" if ours else row.cite, compete=row.role != "bound", row=row))
    marked = mark_best(_blocks(lines), metric.higher)
    table = replace(table, stub=(Text("Method"),), groups=_columns(settings), blocks=marked)
    where = ", ".join(dict.fromkeys(dataset_title(s.dataset) for s in settings))
    text = caption(
        f"{metric.title} on {where}", metric, table.summaries, spread, protocol_words(settings), table.has_gaps
    )
    return replace(table, caption=text)


def main_tables(grid: Grid, spread: Spread, paper: bool) -> dict[Metric, Table]:
    """Table I and II for the paper's columns, or the same for the others, by metric.

    Variants have rows of their own below their method, but for the points of the studies, which have tables.
    """
    settings = grid.paper_settings if paper else grid.other_settings
    aside = _aside(grid) if paper else []
    rows = [r for r in grid.rows(settings, variants=True) if r not in aside and not _is_point(grid, r, settings)]
    out = {}
    for metric in PRINTED if settings else ():
        kind = metric.kind
        number = {"accuracy": 1, "forgetting": 2}.get(kind) if paper else None
        title = f"Table {ROMAN[number]}: average {kind}" if number else metric.title
        name = f"table{number}" if number else kind if paper or kind != "incremental" else "incremental_accuracy"
        empty = Table(name, kind, number, title, (), (), ())
        out[metric] = method_table(grid, settings, rows, metric, spread, empty)
    return out


def _is_point(grid: Grid, row: Row, settings: Sequence[Setting]) -> bool:
    """Whether a variant stands in a study's table everywhere it ran; one without a default run is no point of one."""
    ran = [s for s in settings if grid.cell(row, s).n]
    default = any(grid.cell(Row(row.method), s).n for s in settings)
    return bool(row.variant and ran and default and all(in_a_study(grid, row, s) for s in ran))


def _aside(grid: Grid) -> list[Row]:
    """Variants that do not stand between the paper's rows: those that ran on spare seeds alone, all where its frame was
    asked for."""
    settings, frame = grid.paper_settings, grid.scope.paper_grid
    found = [r for r in grid.rows(settings, variants=True) if r.variant and not _is_point(grid, r, settings)]
    seeds = {r: {run.seed for s in settings for run in grid.cell(r, s).runs} for r in found}
    return [r for r in found if frame or (grid.main_seeds and not seeds[r] & grid.main_seeds)]


def variants_table(grid: Grid, spread: Spread) -> list[Table]:
    """The variants that stand aside of the paper's rows, each below its default."""
    rows = _aside(grid)
    if not rows:
        return []
    settings = [s for s in grid.paper_settings if any(grid.cell(r, s).n for r in rows)]
    empty = Table("variants", "variants", None, "Variants: average accuracy", (), (), ())
    every = sorted({grid.row(r.method) for r in rows} | set(rows), key=lambda r: r.order)
    return [method_table(grid, settings, every, ACCURACY, spread, empty)]


def _study_value(study: Study, point: Point, spread: Spread) -> Value:
    cell = study.points.get(point)
    key = tuple(zip(study.about.keys, (int(v) if isinstance(v, bool) else v for v in point), strict=True))
    setting: Key = (("dataset", study.setting.dataset), ("memory", study.setting.memory))
    summary = summarize(cell, ACCURACY, spread) if cell else None
    return Value(summary, (*setting, *key, ("metric", ACCURACY.name)))


def _points(study: Study) -> list[Point]:
    """The paper's points in its order first, then what else ran."""
    paper = list(published(study.about)) if is_study_setting(study.setting) else []
    return [*paper, *(p for p in study.points if p not in paper)]


def _ablation(study: Study, spread: Spread, table: Table) -> tuple[Table, str, str]:
    """Table III: which parts are on, and the accuracy."""
    check, known = Text("✓", r"\checkmark"), list(published(PARTS))
    lines = [
        Line(tuple(check if on else Text("", " ") for on in point), (_study_value(study, point, spread),))
        for point in sorted(_points(study), key=lambda p: known.index(p) if p in known else len(known))
    ]
    stub = (Text("DualNet"), *(Text(f"L_{f}", rf"$\mathcal{{L}}_\text{{{f}}}$") for f in PARTS.keys[1:]))
    groups = ((Text(""), (Text("Accuracy"),)),)
    extra = "".join(f" The first row is {row.title} itself." for row in study.stand_in.values())
    if study.seeds:
        one = len(study.seeds) == 1
        extra += f" All rows are of seed{'' if one else 's'} {', '.join(map(str, study.seeds))}, as the ablation's."
    return replace(table, stub=stub, groups=groups, blocks=mark_best([lines], True)), "Ablation of EMI on", extra


def _alpha(study: Study, spread: Spread, table: Table) -> tuple[Table, str, str]:
    """Table IV: alpha by alpha_b."""
    points = _points(study)
    alphas, alphas_b = (sorted({p[i] for p in points}) for i in (0, 1))
    lines = [
        Line(
            (Text(f"α = {a:g}", rf"$\alpha = {a:.1f}$"),), tuple(_study_value(study, (a, b), spread) for b in alphas_b)
        )
        for a in alphas
    ]
    columns = tuple(Text(f"α_b = {b:g}", rf"$\alpha_b = {b:.1f}$") for b in alphas_b)
    marked = mark_best([lines], True, across=True)
    return replace(table, stub=(Text(""),), groups=((Text(""), columns),), blocks=marked), "Thresholds of DMI on", ""


def _prototypes(study: Study, spread: Spread, table: Table) -> tuple[Table, str, str]:
    """Table V: samples per prototype."""
    points = sorted(_points(study))
    line = Line((Text("Accuracy"),), tuple(_study_value(study, p, spread) for p in points))
    columns = tuple(Text(str(p[0])) for p in points)
    stub, marked = (Text("N_p", r"$N_\text{p}$"),), mark_best([[line]], True, across=True)
    return replace(table, stub=stub, groups=((Text(""), columns),), blocks=marked), "Samples per prototype on", ""


MAKERS = {PARTS.kind: _ablation, ALPHAS.kind: _alpha, PROTOTYPES.kind: _prototypes}


def study_tables(studies: Iterable[Study], spread: Spread) -> list[Table]:
    """Table III-V where the store has their runs; the same for any other column with such runs."""
    out = []
    for s in studies:
        kind, where = s.about.kind, s.setting.title
        number = s.about.number if is_study_setting(s.setting) else None
        name = f"table{number}" if number else f"{kind}_{s.setting.slug}"
        title = f"Table {ROMAN[number]}: {kind}" if number else f"{kind.capitalize()} on {where}"
        table, what, extra = MAKERS[kind](s, spread, Table(name, kind, number, title, (), (), ()))
        told = f"{what} {where}: average accuracy"
        text = caption(told, ACCURACY, table.summaries, spread, extra, table.has_gaps)
        out.append(replace(table, caption=text))
    return out


def efficiency_tables(grid: Grid, spread: Spread) -> list[Table]:
    """Table VI for the paper's three methods; for other data sets, every method at the largest memory."""
    out = []
    setting = efficiency_setting(grid)
    if setting is not None:
        cells = {row: cost_cell(grid, row, setting) for row in efficiency_rows()}
        packed = "" if measured_alone(grid, setting) else SHARED
        empty = Table("table6", "efficiency", 6, "Table VI: efficiency", (), (), ())
        out.append(_efficiency(setting, cells, spread, empty, packed))
    for _, members in groupby(grid.other_settings, key=lambda s: s.family):
        last = list(members)[-1]
        cells = {r: grid.cell(r, last) for r in grid.rows([last]) if not grid.joint(r, last)}
        title = f"Efficiency on {dataset_title(last.dataset)}"
        empty = Table(f"efficiency_{last.slug}", "efficiency", None, title, (), (), ())
        out.append(_efficiency(last, cells, spread, empty))
    return [t for t in out if t.summaries]


def _efficiency(
    setting: Setting, cells: Mapping[Row, TableCell], spread: Spread, table: Table, packed: str = ""
) -> Table:
    """A row a method, or as in the paper a column where they are few."""
    metrics = ((TIME, 1), (MEMORY, 2))
    values = [
        [_value(cell, m, spread, _key(row, setting), digits) for m, digits in metrics] for row, cell in cells.items()
    ]
    if table.number:
        stub, columns = (Text(""),), tuple(Text(r.title) for r in cells)
        lines = [Line((Text(m.title),), tuple(v[i] for v in values), compete=False) for i, (m, _) in enumerate(metrics)]
    else:
        stub, columns = (Text("Method"),), tuple(Text(m.title) for m, _ in metrics)
        lines = [Line((Text(r.title),), tuple(v), r.cite, compete=False) for r, v in zip(cells, values, strict=True)]
    table = replace(table, stub=stub, groups=((Text(""), columns),), blocks=(tuple(lines),))
    devices = sorted({str(r.about.get("device")) for cell in cells.values() for r in cell.runs})
    several = " The runs are of different devices: their times are not comparable." if len(devices) > 1 else ""
    extra = f" Device: {', '.join(devices)}.{several}{packed}{protocol_words([setting])}"
    what = f"Efficiency on {setting.title}"
    return replace(table, caption=caption(what, None, table.summaries, spread, extra, table.has_gaps))
