"""How the run of a cell ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: done: computed now. present: found in the store. held: another sweep is at it. lost: its worker died too often.
State = Literal["done", "present", "held", "failed", "out_of_memory", "lost"]


@dataclass(frozen=True)
class Outcome:
    """Of one try."""

    state: State
    seconds: float = 0.0
    accuracy: float | None = None
    error: str = ""  #: one line
    trace: str = ""  #: of a worker that was lost, as Ray tells it
    resumed_from: int = 0
    command: str = ""  #: what repeats a run that failed
