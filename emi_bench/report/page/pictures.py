"""A figure as SVG for the page: small, with the page's own colours for text and lines."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass

import matplotlib as mpl

from emi_bench.report.figures.canvas import Drawing

#: What is black, grey or white on paper takes the page's colours, so that it can be read at night too.
COLOURS = {"#000000": "var(--fg)", "#ffffff": "var(--bg)", "#e6e6e6": "var(--line)", "#cccccc": "var(--line)"}


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
    for colour, own in COLOURS.items():
        svg = svg.replace(colour, own)
    svg = svg.replace("font: ", "fill: var(--fg); font: ") if "font: " in svg else svg
    # A figure over two columns (516 pt) is 860 pixels wide here, one of a column half of it.
    svg = re.sub(
        r'width="([\d.]+)pt" height="[\d.]+pt"',
        lambda m: f'role="img" style="width:{float(m[1]) / 0.6:.0f}px"',
        svg,
        count=1,
    )
    return re.sub(r"\n\s*", "\n", svg).strip()
