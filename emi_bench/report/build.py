"""From a store to a folder of tables, figures and one page. The thin layer that touches files."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from emi_bench import reference
from emi_bench.report.checks import Records
from emi_bench.report.compare import headline
from emi_bench.report.evidence import CurveFinder, Evidence, FeatureFinder, evidence_of
from emi_bench.report.figures import Drawing, all_figures, save
from emi_bench.report.grid import Grid
from emi_bench.report.latex import latex_table, preview
from emi_bench.report.model import Table
from emi_bench.report.options import ReportOptions
from emi_bench.report.page.pictures import Picture, picture_of
from emi_bench.report.page.render import render
from emi_bench.report.plain import csv_table, csv_text, markdown_table
from emi_bench.report.sections import SECTIONS
from emi_bench.report.written import clear_old

PAGE_LIMIT = 1_200_000  #: bytes of pictures in the page, so that it can be mailed
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

    def write(self, name: str, text: str) -> None:
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
        self.files.append(path)


def build(
    results_path: str | Path,
    out: str | Path,
    options: ReportOptions = ReportOptions(),
    progress: Progress = lambda _: None,
) -> Report:
    """Read a store and write the report. Works on half-finished sweeps; an empty store makes a page that says so."""
    from emi_bench.store import load_runs
    from emi_bench.store.beside import curve_reader, feature_reader

    progress("reading the results")
    beside = feature_reader(results_path), curve_reader(results_path)
    return build_from(load_runs(results_path), out, options, progress, *beside)


def build_from(
    runs: Records,
    out: str | Path,
    options: ReportOptions = ReportOptions(),
    progress: Progress = lambda _: None,
    features: FeatureFinder | None = None,
    curves: CurveFinder | None = None,
) -> Report:
    """The same from a frame of runs."""
    evidence = evidence_of(runs, options, features, curves)
    grid, planned = evidence.grid, evidence.grid.scope.planned
    report = Report(Path(out), grid, lines=summary_lines(evidence))
    tables = [t for t in evidence.tables if not (planned.tables and t.number) or t.number in planned.tables]
    sections = [s for make in SECTIONS if (s := make(evidence)) is not None]
    if "tables" in options.only:
        progress("writing the tables")
        _write_tables(report, tables, options.underline)
        _write_numbers(report, evidence)
        for section in sections:
            for name, text in section.files.items():
                report.write(name, text)
    pictures: list[Picture] = []
    if "figures" in options.only:
        pictures = _fitting(_write_figures(report, all_figures(evidence), progress))
    if "html" in options.only:
        progress("writing the page")
        report.write("index.html", render(evidence, tables, pictures, sections, options.source))
    clear_old(report.out, report.files, options.only)
    return report


def _write_numbers(report: Report, evidence: Evidence) -> None:
    """The numbers behind the page's sections."""
    for name, found in (
        ("paper_vs_ours.csv", evidence.compared),
        ("differences.csv", evidence.differences),
        ("claims.csv", evidence.sentences),
    ):
        if found:
            report.write(name, csv_text([f.record for f in found]))
    lines = ["# Notes on this report", "", *(f"- {line}" for line in report.lines), ""]
    report.write("notes.md", "\n".join(lines))


def _write_figures(report: Report, drawings: Iterable[Drawing], progress: Progress) -> list[Picture]:
    """Save the figures; those that the page shows are kept for it."""
    pictures = []
    gc.freeze()  # figures are full of circles: what was there before them is not searched again for each
    try:
        for drawing in drawings:
            progress(f"drawing {drawing.name}")
            report.files += save(drawing, report.out / "figures")
            if drawing.on_page:
                pictures.append(picture_of(drawing))
    finally:
        gc.unfreeze()
    return pictures


def _fitting(pictures: list[Picture]) -> list[Picture]:
    """As many as keep the page small, in order."""
    kept, size = [], 0
    for p in pictures:
        if size + len(p.svg) <= PAGE_LIMIT:
            kept.append(p)
            size += len(p.svg)
    return kept


def _write_tables(report: Report, tables: Sequence[Table], underline: bool) -> None:
    for table in tables:
        report.write(f"tables/{table.name}.tex", latex_table(table, underline))
        report.write(f"tables/{table.name}.csv", csv_table(table))
        report.write(f"tables/{table.name}.md", markdown_table(table))
    if tables:
        report.write("tables/preview.tex", preview([t.name for t in tables]))
        report.write("tables/references.bib", bibliography(report.grid))


def bibliography(grid: Grid) -> str:
    """The paper's references, and those that methods bring with them."""
    text = reference.text("references.bib")
    rows = {row.method: row.known for s in grid.settings for row in grid.rows([s])}
    own = [f.bibtex.strip() for f in rows.values() if f.bibtex and f"{{{f.cite}," not in text]
    return "\n\n".join([text.strip(), *dict.fromkeys(own)]) + "\n"


def summary_lines(evidence: Evidence) -> list[str]:
    """What a person should know before reading on."""
    grid = evidence.grid
    notes = [note.text for note in grid.notes]
    if not grid.runs and grid.n_stored:
        none = f"none of the {grid.n_stored} runs in the store is used"
        return [f"{none}: `emi-bench status SWEEP.yaml` tells which of a sweep's are there", *notes]
    if not grid.runs:
        return ["the store holds no runs: `emi-bench sweep demo` makes some in minutes, `emi-bench sweep table1` all"]
    several = "s" if len(grid.settings) > 1 else ""
    lines = [f"{len(grid.runs)} runs in {len(grid.settings)} setting{several}"]
    if any(c.n for c in evidence.compared):
        lines.append(headline(evidence.compared))
    return lines + notes
