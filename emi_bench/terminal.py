"""Sentences on a terminal."""

from __future__ import annotations

from rich.console import Console


def say(console: Console, text: str) -> None:
    """A sentence as it is: no markup in names and paths, no colours, no line breaks in a command to be copied."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)
