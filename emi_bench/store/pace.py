"""Whether a run advances. A process that lives may still be stuck: in a transfer, on a card that hangs."""

from __future__ import annotations

import time
from collections.abc import Callable

FIRST = 3600.0  # seconds that the first step of all may take: data is loaded and decoded before it
LEAST = 900.0  # seconds that any later one may take
TIMES = 20.0  # or this many times the longest that one has taken so far


class Pace:
    """Steps and loads in time; stalled when one takes far longer than any before it."""

    def __init__(self, first: float = FIRST, least: float = LEAST, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._least = clock, least
        self._last, self._longest = clock(), first / TIMES
        self._begun = False

    def finished(self) -> None:
        """Something was finished."""
        now = self._clock()
        taken, self._last = now - self._last, now
        self._longest = max(self._longest, taken) if self._begun else taken
        self._begun = True

    @property
    def limit(self) -> float:
        """Seconds that the present step may take."""
        return max(self._least if self._begun else 0.0, TIMES * self._longest)

    @property
    def stalled(self) -> bool:
        return self._clock() - self._last > self.limit
