"""Sentences on a terminal."""

from __future__ import annotations

from rich.console import Console


def say(console: Console, text: str) -> None:
    """A sentence as it is: no markup in names and paths, no colours, no line breaks in a command to be copied."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def duration(seconds: float) -> str:
    """
    >>> duration(8.2), duration(125), duration(7300), duration(200000)
    ('8 s', '2 min 05 s', '2 h 01 min', '2 d 7 h')
    """
    s = round(seconds)
    if s < 60:
        return f"{s} s"
    if s < 3600:
        return f"{s // 60} min {s % 60:02d} s"
    if s < 86400:
        return f"{s // 3600} h {s % 3600 // 60:02d} min"
    return f"{s // 86400} d {s % 86400 // 3600} h"
