"""What a check found, in plain words, and where in the method's file."""

from __future__ import annotations

import ast
import inspect
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import FrameType

from emi_bench.errors import UserError, line_in


class CheckFailed(AssertionError):
    """A check did not hold. `where` is `file:line`, empty where there is no such place."""

    def __init__(self, message: str, where: str = "", trace: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.message = message
        self.where = where
        self.trace = trace  #: of the exception behind it


class NotRun(Exception):
    """A check that says nothing, because another one has failed before it could."""


class TimeOut(BaseException):
    """A check took too long. Not an Exception, so that a method that catches those does not catch this."""


def place(file: Path, line: int | None) -> str:
    """`file:line`, from the current folder where the file lies below it."""
    here = Path.cwd()
    told = file.relative_to(here) if file.is_relative_to(here) else file
    return f"{told}:{line}" if line else str(told)


class SourceFile:
    """The file of a method's class: gives every finding its line."""

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.file = Path(inspect.getsourcefile(cls) or "")
        self.text = self.file.read_text(encoding="utf-8")

    def at(self, line: int | None) -> str:
        return place(self.file, line)

    def function(self, name: str) -> str:
        """Where a function of the class is written; the class itself where it inherits it."""
        node = next((n for n in ast.walk(self._class) if isinstance(n, ast.FunctionDef) and n.name == name), None)
        return self.at((node or self._class).lineno)

    def attribute(self, path: str) -> str:
        """Where NAME of a path `self.NAME...`, `CLASS.NAME...` or `NAME...` of the file is first written."""
        owner, _, below = path.partition(".")
        holder = self._class if owner == "self" else self._classes.get(owner)
        name = re.split(r"[.\[<]", below if holder else path)[0]
        start = holder.lineno if holder else 1
        lines = enumerate(self.text.splitlines(), 1)
        line = next((n for n, line in lines if n >= start and _names(name, line)), None)
        return self.at(line) if line else self.function(name)

    def calls(self, *prefixes: str) -> list[tuple[str, str]]:
        """Calls of functions whose dotted name begins so, each with its place."""
        found = [(ast.unparse(n.func), n.lineno) for n in ast.walk(ast.parse(self.text)) if isinstance(n, ast.Call)]
        return [(name, self.at(line)) for name, line in sorted(found, key=lambda f: f[1]) if name.startswith(prefixes)]

    def raised(self, error: BaseException) -> str:
        """The innermost line of the file that an exception passed through; empty if it passed through none."""
        line = line_in(self.file, error)
        return self.at(line) if line else ""

    def called_from(self, frame: FrameType | None) -> str:
        """The innermost line of the file below which a frame runs."""
        while frame is not None:
            if frame.f_code.co_filename == str(self.file):
                return self.at(frame.f_lineno)
            frame = frame.f_back
        return ""

    @contextmanager
    def blamed(self, words: str) -> Iterator[None]:
        """An exception inside becomes a failure: `words`, its kind and text, and the line of the file."""
        try:
            yield
        except (CheckFailed, NotRun):
            raise
        except Exception as e:
            told = e.message if isinstance(e, UserError) else f"{type(e).__name__}: {e}"
            where = self.raised(e) or self.function("observe")
            raise CheckFailed(f"{words}: {told}", where, "".join(traceback.format_exception(e))) from e

    @property
    def _class(self) -> ast.ClassDef:
        return self._classes[self.cls.__name__]

    @cached_property
    def _classes(self) -> dict[str, ast.ClassDef]:
        return {n.name: n for n in ast.walk(ast.parse(self.text)) if isinstance(n, ast.ClassDef)}


def _names(name: str, line: str) -> bool:
    return bool(re.search(rf"(?<![\w\"']){re.escape(name)}\s*(:[^=]+)?(=|\.|\[)", line.partition("#")[0]))
