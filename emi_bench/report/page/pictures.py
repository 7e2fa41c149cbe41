"""A figure as SVG for the page: small, with the page's own colours for text and lines."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np

from emi_bench.report.figures.canvas import INK, PAPER, Drawing

#: What is black, grey or white on paper takes the page's colours, so that it can be read at night too; what is written
#: on a heat map keeps its own.
COLOURS = {"#000000": "var(--fg)", "#ffffff": "var(--bg)", "#e6e6e6": "var(--line)", "#cccccc": "var(--line)"} | {
    c: c for c in (INK, PAPER)
}


@dataclass(frozen=True)
class Picture:
    """A figure for the page."""

    name: str
    title: str
    caption: str
    svg: str
    first: bool = False  #: beside the headline table


def picture_of(drawing: Drawing) -> Picture:
    """Text stays text: it takes a tenth of the space of outlines, and can be searched."""
    out = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": drawing.name, "savefig.facecolor": "none"}):
        drawing.figure.savefig(
            out, format="svg", metadata={"Date": None, "Creator": None, "Type": None, "Format": None}
        )
    svg = compact(out.getvalue().decode("utf-8"), drawing.name)
    return Picture(drawing.name, drawing.title, drawing.caption, svg, drawing.first)


def compact(svg: str, name: str) -> str:
    """Without the prologue and needless digits; ids are made the figure's own, for several stand in one page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.S)
    svg = re.sub(r"(\d+\.\d\d)\d+", r"\1", svg)
    svg = re.sub(r'\b(id="|url\(#|xlink:href="#)', lambda m: f"{m[1]}{name}-", svg)
    svg = re.sub(r"(?<=: )#[0-9a-f]{6}", lambda m: COLOURS.get(m[0]) or f"var(--c{m[0][1:]},{m[0]})", svg)
    svg = svg.replace("font: ", "fill: var(--fg); font: ") if "font: " in svg else svg
    # A figure over two columns (516 pt) is 860 pixels wide here, one of a column half of it.
    svg = re.sub(
        r'width="([\d.]+)pt" height="[\d.]+pt"',
        lambda m: f'role="img" style="width:{float(m[1]) / 0.6:.0f}px"',
        svg,
        count=1,
    )
    return re.sub(r"\n\s*", "\n", svg).strip()


def night(colour: str) -> str:
    """The same hue with enough white in it to stand out from the page's dark ground.

    >>> night("#56b4e9"), night("#332288")
    ('#56b4e9', '#8f85be')
    """
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], dtype=float)
    shades = (rgb + (255 - rgb) * white for white in np.arange(0, 1, 0.05))
    bright = next(s for s in shades if s @ (0.2126, 0.7152, 0.0722) >= 130)
    return "#" + "".join(f"{round(v):02x}" for v in bright)


def night_style(pictures: Iterable[Picture]) -> str:
    """The colours of all pictures as they are at night."""
    used = sorted({c for p in pictures for c in re.findall(r"var\(--c([0-9a-f]{6}),", p.svg)})
    told = "".join(f"--c{c}:{night(f'#{c}')};" for c in used)
    return f"@media (prefers-color-scheme: dark) {{ :root {{ {told} }} }}" if used else ""
