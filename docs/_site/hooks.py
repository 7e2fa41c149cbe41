"""What the site needs beside the pages: formulas as MathML, the demo's report, no links that lead out of it.

MathML is drawn by browsers themselves, so that a built site needs no script and no network.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import latex2mathml.converter
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
FORMULA = re.compile(r'<(span|div) class="arithmatex">(?:\\\(|\\\[)(.*?)(?:\\\)|\\\])</\1>', re.DOTALL)
OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?:examples|sweeps|emi_bench|reports|deploy|tests|README)[^)]*\)")


def on_files(files: Any, config: Any) -> Any:
    """The committed report of the demo lies beside the pages."""
    demo = ROOT / "reports" / "demo"
    for path in sorted(p for p in demo.rglob("*") if p.is_file() and not p.name.startswith(".") and p.suffix != ".md"):
        name = f"demo/{path.relative_to(demo).as_posix()}"
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links to files of the repository that are no pages keep their words."""
    return OUTSIDE.sub(r"\1", markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Formulas, as the extension marks them, in MathML."""

    def drawn(found: re.Match[str]) -> str:
        display = "block" if found[1] == "div" else "inline"
        drawn = latex2mathml.converter.convert(html.unescape(found[2]), display=display)
        return drawn.replace("<math", '<math displaystyle="true"', 1)  # else fractions in a line are tiny

    return FORMULA.sub(drawn, content)
