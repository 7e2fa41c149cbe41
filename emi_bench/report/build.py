"""From a store to a folder of tables, figures and one page. The thin layer that touches files."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from emi_bench import reference
from emi_bench.errors import UserError
from emi_bench.report.axes import ACCURACY, FORGETTING, FORGETTING_RAPTOR, SPREADS, Metric, Spread
from emi_bench.report.claims import Checked, check_claims
from emi_bench.report.compare import Comparison, comparisons, comparisons_csv, headline
from emi_bench.report.figures import Drawing, FeatureFinder, all_figures, save, small_png
from emi_bench.report.grid import Grid
from emi_bench.report.latex import latex_table, preview
from emi_bench.report.page import render
from emi_bench.report.page.render import Content, Picture
from emi_bench.report.plain import csv_table, markdown_table
from emi_bench.report.planned import FIGURES, Planned, read_planned
from emi_bench.report.statistics import Difference, differences, focus, overall
from emi_bench.report.table import Table
from emi_bench.report.tables import all_tables
from emi_bench.report.written import PARTS, clear_old

FORGETTINGS: dict[str, Metric] = {"paper": FORGETTING, "raptor": FORGETTING_RAPTOR}
PAGE_LIMIT = 800_000  #: bytes of pictures in the page, so that it can be mailed
Progress = Callable[[str], None]


@dataclass
class Report:
    """What was written, and what the reader must know."""

    out: Path
    grid: Grid
    files: list[Path] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    @property
    def open_first(self) -> Path:
        """The file a person looks at first."""
        page = self.out / "index.html"
        return page if page in self.files else self.files[0] if self.files else self.out


def check_choice(kind: str, value: str, known: Iterable[str]) -> None:
    """Refuse an option that does not exist, with the list."""
    if value not in list(known):
        raise UserError(f"unknown {kind} '{value}'", hint=f"choose from {', '.join(known)}")


@dataclass(frozen=True)
class ReportOptions:
    """What a report is about and how it is written. An option that does not exist is refused here."""

    sweeps: Sequence[str | Path] = ()  #: sweep files that narrow the report; all runs without
    only: Sequence[str] = PARTS
    spread: Spread = "std"
    forgetting: str = "paper"
    underline: bool = True  #: the second best in LaTeX

    def __post_init__(self) -> None:
        for part in self.only:
            check_choice("part", part, PARTS)
        check_choice("spread", self.spread, SPREADS)
        check_choice("forgetting", self.forgetting, FORGETTINGS)


def build(
    results_path: str | Path,
    out: str | Path,
    options: ReportOptions = ReportOptions(),
    progress: Progress = lambda _: None,
) -> Report:
    """Read a store and write the report. Works on half-finished sweeps; an empty store makes a page that says so."""
    from emi_bench.store import load_runs
    from emi_bench.store.features import feature_reader

    progress("reading the results")
    return build_from(load_runs(results_path), out, options, progress, feature_reader(results_path))


def build_from(
    runs: pd.DataFrame,
    out: str | Path,
    options: ReportOptions = ReportOptions(),
    progress: Progress = lambda _: None,
    features: FeatureFinder | None = None,
) -> Report:
    """The same from a frame of runs."""
    planned = read_planned(options.sweeps)
    grid = Grid(runs, planned)
    report = Report(Path(out), grid)
    content = _content(grid, planned, options)
    if "tables" in options.only:
        progress("writing the tables")
        _write_tables(report, content.tables, options.underline)
        _write_numbers(report, content)
    if "figures" in options.only:
        drawings = all_figures(grid, features, planned.figures or FIGURES)
        content = replace(content, pictures=_fitting(_write_figures(report, drawings, progress)))
    if "html" in options.only:
        progress("writing the page")
        _write(report, "index.html", render(grid, content))
    clear_old(report.out, report.files, options.only)
    report.lines = summary_lines(grid, content.compared)
    return report


def _content(grid: Grid, planned: Planned, options: ReportOptions) -> Content:
    """Everything the report says in numbers; the pictures are still to come."""
    tables = all_tables(grid, options.spread, FORGETTINGS[options.forgetting])
    if planned.tables:
        tables = [t for t in tables if t.name in planned.tables or not t.name.startswith("table")]
    ours = focus(grid, ACCURACY)
    return Content(
        tables=tables,
        compared=comparisons(grid),
        differences=differences(grid, grid.settings, ACCURACY, ours) if ours else [],
        overall=overall(grid, grid.paper_settings or grid.other_settings, ACCURACY) if "html" in options.only else [],
        claims=check_claims(grid) if grid.paper_settings else [],
        pictures=(),
        spread=options.spread,
    )


def _write_numbers(report: Report, content: Content) -> None:
    """The numbers behind the page's sections."""
    _write(report, "paper_vs_ours.csv", comparisons_csv(content.compared), when=bool(content.compared))
    _write(report, "differences.csv", _differences_csv(content.differences), when=bool(content.differences))
    _write(report, "claims.csv", _claims_csv(content.claims), when=bool(content.claims))
    _write(report, "notes.md", _notes(report.grid, content.compared))


def _write_figures(report: Report, drawings: Iterable[Drawing], progress: Progress) -> list[Picture]:
    """Save the figures; those that the page shows, small. The paper's many matrices are not among them."""
    pictures = []
    folder = report.out / "figures"
    for drawing in drawings:
        progress(f"drawing {drawing.name}")
        report.files += save(drawing, folder)
        if not drawing.name.startswith("matrices_") or not report.grid.paper_settings:
            png = small_png(folder / f"{drawing.name}.png")
            pictures.append(Picture(drawing.name, drawing.title, drawing.caption, png))
    return pictures


def _fitting(pictures: list[Picture]) -> list[Picture]:
    """As many as keep the page small, in order."""
    kept, size = [], 0
    for p in pictures:
        if size + len(p.png) <= PAGE_LIMIT:
            kept.append(p)
            size += len(p.png)
    return kept


def _write(report: Report, name: str, text: str, when: bool = True) -> None:
    if not when:
        return
    path = report.out / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    report.files.append(path)


def _write_tables(report: Report, tables: Sequence[Table], underline: bool) -> None:
    for table in tables:
        _write(report, f"tables/{table.name}.tex", latex_table(table, underline))
        _write(report, f"tables/{table.name}.csv", csv_table(table))
        _write(report, f"tables/{table.name}.md", markdown_table(table))
    _write(report, "tables/preview.tex", preview([t.name for t in tables]), when=bool(tables))
    _write(report, "tables/references.bib", reference.text("references.bib"), when=bool(tables))


def _rows_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()


def _differences_csv(found: Sequence[Difference]) -> str:
    header = [
        "dataset",
        "memory",
        "ours",
        "other",
        "n",
        "paired",
        "mean",
        "low",
        "high",
        "wins",
        "improvement",
        "p",
        "p_holm",
    ]
    return _rows_csv(header, (
        [d.setting.dataset, d.setting.memory, d.ours.title, d.other.title, d.n, d.paired, repr(d.mean), repr(d.low),
         repr(d.high), d.wins, repr(d.improvement), repr(d.p), repr(d.p_holm)] for d in found
    ))  # fmt: skip


def _claims_csv(claims: Sequence[Checked]) -> str:
    header = ["id", "quote", "its_tables", "our_runs", "paper_numbers", "our_numbers"]
    rows = (
        [c.id, c.quote, c.paper, c.ours, *("; ".join(p.text for p in parts) for parts in (c.paper_parts, c.our_parts))]
        for c in claims
    )
    return _rows_csv(header, rows)


def _notes(grid: Grid, compared: Sequence[Comparison]) -> str:
    lines = ["# Notes on this report", "", *(f"- {line}" for line in summary_lines(grid, compared))]
    return "\n".join([*lines, ""])


def summary_lines(grid: Grid, compared: Sequence[Comparison]) -> list[str]:
    """What a person should know before reading on."""
    if not grid.runs and grid.n_stored:
        none = f"none of the {grid.n_stored} runs in the store is used"
        return [
            f"{none}: `emi-bench status SWEEP.yaml` tells which of a sweep's are there",
            *(n.text for n in grid.notes),
        ]
    if not grid.runs:
        return ["the store holds no runs: `emi-bench sweep demo` makes some in minutes, `emi-bench sweep table1` all"]
    several = "s" if len(grid.settings) > 1 else ""
    lines = [f"{len(grid.runs)} runs in {len(grid.settings)} setting{several}"]
    if any(c.n for c in compared):
        lines.append(headline(compared))
    return lines + [note.text for note in grid.notes]
