"""The one exception whose text is meant for the person at the keyboard."""

from __future__ import annotations


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
