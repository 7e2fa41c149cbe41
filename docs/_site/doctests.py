"""Examples in docstrings as code: Markdown takes `>>>` for quotations within quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)


class Doctests(griffe.Extension):
    """Puts a fence around each."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            plain = re.sub(r" *# doctest: \+\w+", "", obj.docstring.value)
            obj.docstring.value = EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", plain)
