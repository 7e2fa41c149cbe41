"""Who is working on a run: leases, so that two sweeps on one store never do the same run at once.

A claim is the file `_claims/<run_id>.<n>`; the highest n holds. It is taken by creating the file, which succeeds for
exactly one (O_EXCL; also on NFS 3 and later), renewed by replacing it, and taken over from a dead holder by creating
n+1. A claim is dead when its heartbeat is older than `ttl` seconds, when its process is gone (same host), or when it
belongs to the caller's own sweep, whose former worker was lost.

A `Lease` takes a claim, keeps it alive from a thread, and gives it back. A heartbeat looks for the
next number and writes its own claim anew: two files, however many runs there are.

Object stores (`s3://`, `gs://`) have no exclusive creation through pyarrow: the object is written, and read back after
a moment; the last writer holds. Two sweeps that claim within that moment may both compute a run: the result is still
one object, with the same content. Clocks of the machines must agree to within half of `ttl`.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from dataclasses import asdict, dataclass, field, replace
from types import TracebackType
from typing import Any, Self

from emi_bench.store.defaults import TTL
from emi_bench.store.files import Files
from emi_bench.store.pace import Pace
from emi_bench.store.processes import process_space, running

FOLDER = "_claims"
BEATS = 4  # heartbeats within the time to live
ROOM = 1024  # bytes of a claim: what is written over it must not be shorter
SETTLE = 1.0  # seconds between writing and reading back on an object store


class ClaimLost(RuntimeError):
    """Somebody else has taken this run over."""


@dataclass(frozen=True)
class Claim:
    """One lease, and what its holder last said of the run."""

    run_id: str
    generation: int
    owner: str  #: the sweep (one invocation of the command)
    label: str = ""
    sweep: str = ""
    host: str = field(default_factory=socket.gethostname)
    space: str = field(default_factory=process_space)
    pid: int = field(default_factory=os.getpid)
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    started: float = field(default_factory=time.time)
    heartbeat: float = field(default_factory=time.time)
    ttl: float = TTL
    phase: int = 0
    n_phases: int = 0
    accuracy: float | None = None

    @property
    def path(self) -> str:
        return f"{FOLDER}/{self.run_id}.{self.generation}"

    def dead(self, owner: str = "") -> bool:
        """Whether the caller may take it over."""
        if owner and self.owner == owner:
            return True
        if time.time() - self.heartbeat > self.ttl:
            return True
        here = self.host == socket.gethostname() and self.space == process_space()
        return here and not running(self.pid)


class Claims:
    """The leases of a store."""

    def __init__(self, files: Files, ttl: float = TTL) -> None:
        self.files = files
        self.ttl = ttl
        self._seen: dict[str, Claim] = {}

    def live(self, owner: str = "") -> dict[str, Claim]:
        """Claims that hold a run, by its id; those of `owner` are not counted. Asked again, only those are read whose
        next heartbeat is due: a claim that was seen to live is not dead before."""
        newest = self._newest()
        known = {path: claim for path, claim in self._seen.items() if newest.get(claim.run_id) == claim.generation}
        now = time.time()
        self._seen = {}
        for run_id, generation in newest.items():
            path = f"{FOLDER}/{run_id}.{generation}"
            claim = known.get(path)
            if claim is None or now - claim.heartbeat > claim.ttl / BEATS or claim.dead(owner):
                claim = self._read(run_id, generation)
            if claim is not None:
                self._seen[path] = claim
        return {claim.run_id: claim for claim in self._seen.values() if not claim.dead(owner)}

    def acquire(self, run_id: str, *, owner: str, label: str = "", sweep: str = "") -> Claim | None:
        """The lease of a run, or None while another holds it."""
        generation = self._newest(run_id).get(run_id, 0)
        if generation:
            holder = self._read(run_id, generation)
            if holder is not None and not holder.dead(owner):
                return None
        claim = Claim(run_id, generation + 1, owner, label, sweep, ttl=self.ttl)
        return claim if self._create(claim) else None

    def renew(self, claim: Claim, **news: Any) -> Claim:
        """Say that the holder lives, and how far the run is. Raises ClaimLost if it is another's by now. Tries once: a
        heartbeat that waited for a disk would keep whoever wants to give the claim back."""
        fresh = replace(claim, heartbeat=time.time(), **news)
        lost = ClaimLost(f"{claim.label or claim.run_id[:12]} was taken over by another sweep")

        def beat(content: bytes) -> bytes:
            found = _decode(content)
            if found is not None and found.token != claim.token:
                raise lost
            return _encode(fresh)

        if Files.exists(self.files, f"{FOLDER}/{claim.run_id}.{claim.generation + 1}"):
            raise lost
        if not self.files.amend(claim.path, beat):
            self.files.see_root()
            raise lost
        return fresh

    def release(self, claim: Claim) -> None:
        """Give the run back, with the claims it was taken over from; not if it is another's by now."""
        found = self._read(claim.run_id, claim.generation)
        if found is not None and found.token != claim.token:
            return
        for generation in range(1, claim.generation + 1):  # the one that holds goes last
            self.files.delete(f"{FOLDER}/{claim.run_id}.{generation}")

    def release_all(self, owner: str) -> None:
        """Give back whatever one sweep still holds; its workers must be gone."""
        for run_id, generation in self._newest().items():
            claim = self._read(run_id, generation)
            if claim is not None and claim.owner == owner:
                self.release(claim)

    def revoke(self, run_id: str) -> None:
        """Take a run from whoever holds it; a holder that lives learns of it at its next step."""
        for path in sorted(self.files.list(FOLDER, recursive=False)):
            if path.startswith(f"{FOLDER}/{run_id}."):
                self.files.delete(path)

    def _newest(self, run_id: str = "") -> dict[str, int]:
        newest: dict[str, int] = {}
        for path in self.files.list(FOLDER, recursive=False):
            name, _, number = path.rpartition("/")[2].rpartition(".")
            if number.isdigit() and not name.startswith("_") and (not run_id or name == run_id):
                newest[name] = max(newest.get(name, 0), int(number))
        return newest

    def _read(self, run_id: str, generation: int) -> Claim | None:
        """None where it was given back meanwhile. A claim whose holder died while writing it counts from its birth."""
        path = f"{FOLDER}/{run_id}.{generation}"
        content = self.files.read(path)
        if content is None:
            return None
        born = self.files.modified
        return _decode(content) or Claim(
            run_id, generation, "", host="?", pid=0, token="", heartbeat=born(path), ttl=self.ttl
        )

    def _create(self, claim: Claim) -> bool:
        if self.files.remote:
            self.files.write(claim.path, _encode(claim))
            time.sleep(SETTLE)
            found = self._read(claim.run_id, claim.generation)
            return found is not None and found.token == claim.token
        # A disk may have been waited for: the claim lives from the moment it is written.
        return self.files.create(claim.path, lambda: _encode(replace(claim, heartbeat=time.time())))


def _encode(claim: Claim) -> bytes:
    return json.dumps(asdict(claim)).encode().ljust(ROOM)


def _decode(content: bytes) -> Claim | None:
    """None of a claim that is being written, or whose holder died while writing it."""
    try:
        return Claim(**json.loads(content))
    except (ValueError, TypeError):
        return None


class Lease:
    """`with Lease(...) as lease: if lease.held: ...`. It beats only while the run advances: `step` says that it does,
    `tell` how far it is; both raise once the run is another's."""

    def __init__(
        self,
        files: Files,
        run_id: str,
        *,
        owner: str,
        label: str = "",
        sweep: str = "",
        ttl: float = TTL,
        pace: Pace | None = None,
    ) -> None:
        self._pace = pace or Pace()
        self._claims = Claims(files, ttl)
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

    def step(self) -> None:
        """A step, or a load, or whatever a run is made of was finished."""
        if self._lost is not None:
            raise self._lost
        self._pace.finished()

    def tell(self, phase: int, n_phases: int, accuracy: float | None) -> None:
        """How far the run is, for `emi-bench status`; written with the next heartbeat."""
        self.step()
        self._news = {"phase": phase, "n_phases": n_phases, "accuracy": accuracy}

    def _beat(self) -> None:
        while not self._stop.wait(self._interval):
            with self._lock:
                if self._claim is None:
                    return
                if self._pace.stalled:  # others may take the run; if it goes on before they do, so do its heartbeats
                    continue
                try:
                    self._claim = self._claims.renew(self._claim, **self._news)
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
