"""A table as LaTeX (booktabs), and the preview document that compiles them all."""

from __future__ import annotations

from collections.abc import Sequence

from emi_bench.report.model import Line, Table, Text, Value, number
from emi_bench.report.plain import grid_of

PACKAGES = r"% \usepackage{amsmath,amssymb,booktabs,graphicx}"

_SPECIAL = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--", "α": r"$\alpha$",
    "±": r"$\pm$", "†": r"$\dagger$", "[": "{[}", "]": "{]}",
}  # fmt: skip


def escape(text: str) -> str:
    r"""
    >>> escape("my_method 50 %")
    'my\\_method 50 \\%'
    """
    return "".join(_SPECIAL.get(c, c) for c in text)


def _text(text: Text) -> str:
    return text.latex or escape(text.plain)


def _number(x: float, digits: int) -> str:
    """
    >>> _number(-0.31, 1)
    '$-$0.3'
    """
    return number(x, digits).replace("-", "$-$")


def latex_value(value: Value, underline: bool = True) -> str:
    """`\\textbf{60.0}\\,$\\pm$\\,1.4`, an en dash for a missing cell, a dagger and n=7/10 for a partial one."""
    s = value.summary
    if s is None:
        return "--"
    mean = _number(s.mean, value.digits)
    if value.best:
        mean = rf"\textbf{{{mean}}}"
    elif value.second and underline:
        mean = rf"\underline{{{mean}}}"
    spread = "" if s.spread != s.spread else rf"\,$\pm$\,{_number(s.spread, value.digits)}"
    partial = rf"\textsuperscript{{$\dagger$\,$n$={s.n}/{s.expected}}}" if s.partial else ""
    return mean + spread + partial


def _line(line: Line, underline: bool) -> str:
    labels = [_text(t) for t in line.labels]
    if line.cite:
        labels[0] += rf"~\cite{{{line.cite}}}"
    return " & ".join([*labels, *(latex_value(v, underline) for v in line.values)]) + r" \\"


def _header(table: Table) -> list[str]:
    stub = [rf"\textbf{{{_text(t)}}}" if t.plain else "" for t in table.stub]
    names = " & ".join([*stub, *(_text(c) for c in table.columns)]) + r" \\"
    if not any(g.plain for g, _ in table.groups):
        return [names]
    last = len(table.groups) - 1
    groups = [
        rf"\multicolumn{{{len(columns)}}}{{{'c' if i == last else 'c|'}}}{{{_text(g)}}}"
        for i, (g, columns) in enumerate(table.groups)
    ]
    return [" & ".join([*[""] * len(stub), *groups]) + r" \\", names]


def _wide(table: Table) -> bool:
    """Whether it needs both columns of a two-column page, which is about sixty letters of this size."""
    header, body = grid_of(table, marks=False)
    groups = [len(g.plain) for g, _ in table.groups]
    letters = sum(2 + max(len(row[i]) for row in body) for i in range(len(header))) if body else 0
    return max(letters, sum(groups)) > 62


def latex_table(table: Table, underline: bool = True) -> str:
    """The whole float, never wider than the text. `underline` marks the second best."""
    grouped = any(g.plain for g, _ in table.groups)
    bars = "|".join("c" * len(columns) for _, columns in table.groups)
    stub = "l" * len(table.stub) if len(table.stub) == 1 else "c" * len(table.stub)
    float_ = "table*" if _wide(table) else "table"
    out = [
        PACKAGES, rf"\begin{{{float_}}}[t]", r"\centering",
        rf"\caption{{{_text(table.caption)}}}", rf"\label{{tab:{table.name}}}",
        r"\footnotesize\setlength{\tabcolsep}{3pt}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{stub}{'|' if grouped else ''}{bars}}}", r"\toprule", *_header(table), r"\midrule",
    ]  # fmt: skip
    for i, block in enumerate(table.blocks):
        if i:
            out.append(r"\midrule")
        out += [_line(line, underline) for line in block]
    return "\n".join([*out, r"\bottomrule", r"\end{tabular}}", rf"\end{{{float_}}}", ""])


def preview(names: Sequence[str]) -> str:
    """A document that compiles alone and shows every table; its bibliography is `references.bib`."""
    body = "\n".join(rf"\input{{{name}}}" for name in names)
    return rf"""% pdflatex preview && bibtex preview && pdflatex preview && pdflatex preview
\documentclass[10pt]{{article}}
\usepackage[utf8]{{inputenc}}
\usepackage[a4paper,landscape,margin=1.5cm]{{geometry}}
\usepackage{{amsmath,amssymb,booktabs,graphicx}}
\pagestyle{{plain}}
\begin{{document}}
{body}
\clearpage
\bibliographystyle{{plain}}
\bibliography{{references}}
\end{{document}}
"""
