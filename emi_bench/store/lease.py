"""Holding a run while working on it: take the claim, keep it alive from a thread, give it back."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Self

from emi_bench.store.claims import TTL, Claim, ClaimLost, Claims
from emi_bench.store.files import Files
from emi_bench.store.patient import PatientFiles

BEATS = 4  # heartbeats within the time to live


class Lease:
    """`with Lease(...) as lease: if lease.held: ...`; `tell` notes progress, and raises once the run is another's."""

    def __init__(
        self, files: Files, run_id: str, *, owner: str, label: str = "", sweep: str = "", ttl: float = TTL
    ) -> None:
        self._claims = Claims(files, ttl)
        # A heartbeat that waited for the disk could revive a claim that was given back: it tries once.
        once = PatientFiles(files.uri, patience=0) if isinstance(files, PatientFiles) else files
        self._beating = Claims(once, ttl)
        self._claim = self._claims.acquire(run_id, owner=owner, label=label, sweep=sweep)
        self._news: dict[str, Any] = {}
        self._lost: ClaimLost | None = None
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._interval = ttl / BEATS
        self._thread = threading.Thread(target=self._beat, name="lease", daemon=True)

    @property
    def held(self) -> bool:
        return self._claim is not None

    def __enter__(self) -> Self:
        if self.held:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        with self._lock:
            claim, self._claim = self._claim, None
        if claim is not None and self._lost is None:
            self._claims.release(claim)

    def tell(self, phase: int, n_phases: int, accuracy: float | None) -> None:
        """How far the run is, for `emi-bench status`; written with the next heartbeat."""
        if self._lost is not None:
            raise self._lost
        self._news = {"phase": phase, "n_phases": n_phases, "accuracy": accuracy}

    def _beat(self) -> None:
        while not self._stop.wait(self._interval):
            with self._lock:
                if self._claim is None:
                    return
                try:
                    self._claim = self._beating.renew(self._claim, **self._news)
                except ClaimLost as e:
                    self._lost = e
                    return
                except OSError:  # the next beat may get through; if none does, others may take the run
                    continue


def holder(claim: Claim) -> str:
    """For people: who holds a run.

    >>> holder(Claim("r", 1, "o", host="node7", pid=12))
    'node7, process 12'
    """
    return f"{claim.host}, process {claim.pid}"
