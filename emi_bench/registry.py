"""Names to things, with an error that helps."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from emi_bench.errors import UserError

if TYPE_CHECKING:
    from pydantic import BaseModel


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The sentence after an unknown name.

    >>> did_you_mean("emy", ["er", "emi"])
    'Did you mean emi? Known: emi, er.'
    >>> did_you_mean("zzz", ["er", "emi"])
    'Known: emi, er.'
    """
    names = sorted(known)
    lower = {n.lower(): n for n in names}
    close = [lower[n] for n in difflib.get_close_matches(name.lower(), list(lower), n=3, cutoff=0.5)]
    guess = f"Did you mean {' or '.join(close)}? " if close else ""
    return f"{guess}Known: {', '.join(names) or 'none'}."


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that a registry does not hold."""
    return UserError(f"unknown {kind} '{name}'", hint=did_you_mean(name, known))


def described(model: type[BaseModel], key: str) -> str:
    """What a key of a model means, in its own words; empty where it has none."""
    field = model.model_fields.get(key.partition(".")[0])
    return f"{key}: {field.description}" if field is not None and field.description else ""
