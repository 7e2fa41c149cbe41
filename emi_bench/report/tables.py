"""The tables: the paper's I and II in its layout, the same for any other grid, and the studies III-VI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from emi_bench.report.axes import (
    ACCURACY,
    FORGETTING,
    INCREMENTAL,
    MEMORY,
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
from emi_bench.report.efficiency import cost_cell, efficiency_rows, efficiency_setting, measured_alone
from emi_bench.report.grid import Cell, Grid, summarize
from emi_bench.report.latex import escape
from emi_bench.report.studies import ALPHAS, FLAGS, PROTOTYPES, Point, Study, all_studies, is_study_setting, published
from emi_bench.report.table import Line, Table, Text, Value, mark_best

Key = tuple[tuple[str, str | int | float], ...]
SHARED = " The times are of runs that may have shared a card: sweeps/efficiency.yaml, one run at a time, has not run."


def _group_title(setting: Setting, differs: str) -> Text:
    title = dataset_title(setting.dataset)
    tasks = f"{setting.n_tasks} tasks" + (f", {differs}" if differs else "")
    return Text(f"{title} ({tasks})", rf"\textbf{{{escape(title)}}} ({escape(tasks)})")


def _columns(settings: Sequence[Setting]) -> tuple[tuple[Text, tuple[Text, ...]], ...]:
    differs = apart(settings)
    groups = []
    for _, members in groupby(settings, key=lambda s: (s.dataset, s.n_tasks, s.protocol)):
        inside = list(members)
        titles = (Text(t, f"${t}$" if "=" in t else t) for t in (memory_title(s.memory) for s in inside))
        groups.append((_group_title(inside[0], differs[inside[0]]), tuple(titles)))
    return tuple(groups)


def _key(row: Row, setting: Setting) -> Key:
    return (
        ("method", row.method), ("variant", row.variant), ("dataset", setting.dataset), ("n_tasks", setting.n_tasks),
        ("memory", setting.memory),
    )  # fmt: skip


def _value(cell: Cell, metric: Metric, spread: Spread, key: Key, digits: int = 1) -> Value:
    return Value(summarize(cell, metric, spread), (*key, ("metric", metric.name)), digits=digits)


def method_table(
    grid: Grid,
    settings: Sequence[Setting],
    metric: Metric,
    spread: Spread,
    *,
    name: str,
    title: str,
    whole: bool = False,
) -> Table:
    """Methods by settings: the bounds above the rule, ours last. `whole` keeps the paper's rows that have not run."""
    rows = grid.rows(settings, whole)
    if metric.name.startswith("forgetting"):
        rows = [r for r in rows if not any(grid.joint(r, s) for s in settings) and not (whole and r.role == "bound")]
    blocks: list[list[Line]] = [[], []]
    for row in rows:
        values = tuple(_value(grid.cell(row, s), metric, spread, _key(row, s)) for s in settings)
        ours = " (Ours)" if whole and row.role == "ours" and not row.variant else ""
        bound = row.role == "bound"
        line = Line((Text(row.title + ours),), values, "" if ours else row.cite, compete=not bound)
        blocks[0 if bound else 1].append(line)
    marked = mark_best([b for b in blocks if b], metric.higher)
    table = Table(name, title, Text(""), (Text("Method"),), _columns(settings), marked, wide=True)
    missing = any(v.summary is None for line in table.lines for v in line.values)
    where = ", ".join(dict.fromkeys(dataset_title(s.dataset) for s in settings))
    what = f"{metric.title} on {where}"
    text = caption(what, metric, table.summaries, spread, protocol_words(settings), missing)
    return Table(name, title, text, table.stub, table.groups, table.blocks, wide=True)


def main_tables(grid: Grid, spread: Spread, forgetting: Metric = FORGETTING) -> list[Table]:
    """Table I and II for the paper's columns, the same pair (and incremental accuracy) for every other column."""
    out = []
    if grid.paper_settings:
        for name, metric, title in (
            ("table1", ACCURACY, "Table I: average accuracy"),
            ("table2", forgetting, "Table II: average forgetting"),
            ("incremental", INCREMENTAL, "Average incremental accuracy"),
        ):
            settings = grid.paper_settings
            out.append(method_table(grid, settings, metric, spread, name=name, title=title, whole=True))
    if grid.other_settings:
        for name, metric in (("accuracy", ACCURACY), ("forgetting", forgetting), ("incremental_accuracy", INCREMENTAL)):
            settings = grid.other_settings
            out.append(method_table(grid, settings, metric, spread, name=name, title=metric.title))
    return out


def _where(study: Study) -> str:
    return f"{dataset_title(study.setting.dataset)} ({memory_title(study.setting.memory)})"


def _study_value(study: Study, point: Point, spread: Spread) -> Value:
    cell = study.points.get(point)
    key = tuple(zip(study.keys, (int(v) if isinstance(v, bool) else v for v in point), strict=True))
    setting: Key = (("dataset", study.setting.dataset), ("memory", study.setting.memory))
    summary = summarize(cell, ACCURACY, spread) if cell else None
    return Value(summary, (*setting, *key, ("metric", ACCURACY.name)))


def _finish(table: Table, spread: Spread, what: str, extra: str = "") -> Table:
    missing = any(v.summary is None for line in table.lines for v in line.values)
    text = caption(what, ACCURACY, table.summaries, spread, extra, missing)
    return Table(table.name, table.title, text, table.stub, table.groups, table.blocks)


def _points(study: Study) -> list[Point]:
    """The paper's points in its order first, then what else ran."""
    paper = list(published(study.keys)) if is_study_setting(study.setting) else []
    return [*paper, *(p for p in study.points if p not in paper)]


def ablation_table(study: Study, spread: Spread, name: str, title: str) -> Table:
    """Table III: which parts are on, and the accuracy."""
    check = Text("✓", r"\checkmark")
    lines = []
    for point in sorted(_points(study), key=lambda p: list(published(FLAGS)).index(p) if p in published(FLAGS) else 99):
        labels = tuple(check if on else Text("", " ") for on in point)
        lines.append(Line(labels, (_study_value(study, point, spread),)))
    stub = (Text("DualNet"), *(Text(f"L_{f}", rf"$\mathcal{{L}}_\text{{{f}}}$") for f in FLAGS[1:]))
    groups = ((Text(""), (Text("Accuracy"),)),)
    extra = "".join(f" The first row is {row.title} itself." for row in study.stand_in.values())
    table = Table(name, title, Text(""), stub, groups, mark_best([lines], True))
    return _finish(table, spread, f"Ablation of EMI on {_where(study)}: average accuracy", extra)


def alpha_table(study: Study, spread: Spread, name: str, title: str) -> Table:
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
    table = Table(name, title, Text(""), (Text(""),), ((Text(""), columns),), mark_best([lines], True, across=True))
    return _finish(table, spread, f"Thresholds of DMI on {_where(study)}: average accuracy")


def prototype_table(study: Study, spread: Spread, name: str, title: str) -> Table:
    """Table V: samples per prototype."""
    points = sorted(_points(study))
    line = Line((Text("Accuracy"),), tuple(_study_value(study, p, spread) for p in points))
    columns = tuple(Text(str(p[0])) for p in points)
    stub = (Text("N_p", r"$N_\text{p}$"),)
    table = Table(name, title, Text(""), stub, ((Text(""), columns),), mark_best([[line]], True, across=True))
    return _finish(table, spread, f"Samples per prototype on {_where(study)}: average accuracy")


def study_tables(grid: Grid, spread: Spread) -> list[Table]:
    """Table III-V where the store has their runs; the same for any other column with such runs."""
    out = []
    for keys, make, number, short in (
        (FLAGS, ablation_table, "III", "ablation"),
        (ALPHAS, alpha_table, "IV", "alpha"),
        (PROTOTYPES, prototype_table, "V", "prototypes"),
    ):
        for s in all_studies(grid, keys):
            if is_study_setting(s.setting):
                out.append(make(s, spread, f"table{['III', 'IV', 'V'].index(number) + 3}", f"Table {number}: {short}"))
            else:
                out.append(make(s, spread, f"{short}_{s.setting.slug}", f"{short.capitalize()} on {_where(s)}"))
    return out


def efficiency_tables(grid: Grid, spread: Spread) -> list[Table]:
    """Table VI for the paper's three methods; for other data sets, every method at the largest memory."""
    out = []
    setting = efficiency_setting(grid)
    if setting is not None:
        cells = {row: cost_cell(grid, row, setting) for row in efficiency_rows()}
        packed = "" if measured_alone(grid, setting) else SHARED
        out.append(_efficiency(setting, cells, spread, "table6", "Table VI: efficiency", packed))
    for _, members in groupby(grid.other_settings, key=lambda s: (s.dataset, s.n_tasks, s.protocol)):
        last = list(members)[-1]
        cells = {r: grid.cell(r, last) for r in grid.rows([last]) if not grid.joint(r, last)}
        title = f"Efficiency on {dataset_title(last.dataset)}"
        out.append(_efficiency(last, cells, spread, f"efficiency_{last.slug}", title))
    return [t for t in out if t.summaries]


def _efficiency(
    setting: Setting, cells: Mapping[Row, Cell], spread: Spread, name: str, title: str, packed: str = ""
) -> Table:
    lines = []
    for metric, digits in ((TIME, 1), (MEMORY, 2)):
        values = tuple(_value(cell, metric, spread, _key(row, setting), digits) for row, cell in cells.items())
        lines.append(Line((Text(metric.title),), values, compete=False))
    columns = tuple(Text(r.title, "") for r in cells)
    table = Table(name, title, Text(""), (Text(""),), ((Text(""), columns),), (tuple(lines),))
    devices = sorted({str(r.facts.get("device")) for cell in cells.values() for r in cell.runs})
    several = " The runs are of different devices: their times are not comparable." if len(devices) > 1 else ""
    extra = f" Device: {', '.join(devices)}.{several}{packed}{protocol_words([setting])}"
    what = f"Efficiency on {dataset_title(setting.dataset)} ({memory_title(setting.memory)})"
    missing = any(v.summary is None for line in lines for v in line.values)
    text = caption(what, None, table.summaries, spread, extra, missing)
    return Table(name, title, text, table.stub, table.groups, table.blocks, wide=len(cells) > 4)


def all_tables(grid: Grid, spread: Spread = "std", forgetting: Metric = FORGETTING) -> list[Table]:
    """Every table the store can serve."""
    tables = [*main_tables(grid, spread, forgetting), *study_tables(grid, spread), *efficiency_tables(grid, spread)]
    return sorted(tables, key=lambda t: not t.name.startswith("table"))
