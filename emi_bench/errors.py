"""The one exception whose text is meant for the person at the keyboard."""

from __future__ import annotations

import traceback
from pathlib import Path


class UserError(Exception):
    """Something the user can put right. `message` says what is wrong, `hint` what to do next.

    >>> print(UserError("no such file: a.npz", hint="check the path"))
    no such file: a.npz
    check the path
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


def line_in(file: Path, error: BaseException) -> int | None:
    """The innermost line of a user's file that an exception passed through, or that does not parse; else None."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    return next((f.lineno for f in reversed(frames) if f.filename == str(file)), None)
