"""Who is working on a run: leases under `_claims/`, so that two sweeps on one store never do the same run at once.

A claim is the file `_claims/<run_id>.<n>`; the highest n holds. It is taken by creating the file, which succeeds for
exactly one (O_EXCL; also on NFS 3 and later), renewed by replacing it, and taken over from a dead holder by creating
n+1. A claim is dead when its heartbeat is older than `ttl` seconds, when its process is gone (same host), or when it
belongs to the caller's own sweep, whose former worker was lost.

Object stores (`s3://`, `gs://`) have no exclusive creation through pyarrow: the object is written, and read back after
a moment; the last writer holds. Two sweeps that claim within that moment may both compute a run: the result is still
one object, with the same content. Clocks of the machines must agree to within half of `ttl`.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
import uuid
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from emi_bench.store.files import Files

FOLDER = "_claims"
TTL = 60.0
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
    space: str = field(default_factory=lambda: _process_space())  #: containers may share a host's name, not its pids
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
        here = self.host == socket.gethostname() and self.space == _process_space()
        return here and not _running(self.pid)


class Claims:
    """The leases of a store."""

    def __init__(self, files: Files, ttl: float = TTL) -> None:
        self.files = files
        self.ttl = ttl

    def live(self, owner: str = "") -> dict[str, Claim]:
        """Claims that hold a run, by its id; those of `owner` are not counted."""
        held = {run_id: self._read(run_id, generation) for run_id, generation in self._newest().items()}
        return {run_id: c for run_id, c in held.items() if c is not None and not c.dead(owner)}

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
        """Say that the holder lives, and how far the run is. Raises ClaimLost if it is another's by now."""
        newest = self._newest(claim.run_id).get(claim.run_id, 0)
        found = self._read(claim.run_id, claim.generation)
        if newest != claim.generation or (found is not None and found.token != claim.token):
            raise ClaimLost(f"{claim.label or claim.run_id[:12]} was taken over by another sweep")
        fresh = replace(claim, heartbeat=time.time(), **news)
        self.files.write(claim.path, _encode(fresh))
        return fresh

    def release(self, claim: Claim) -> None:
        """Give the run back, with the claims it was taken over from; not if it is another's by now."""
        found = self._read(claim.run_id, claim.generation)
        if found is not None and found.token != claim.token:
            return
        for generation in range(claim.generation, 0, -1):
            self.files.delete(f"{FOLDER}/{claim.run_id}.{generation}")

    def release_all(self, owner: str) -> None:
        """Give back whatever one sweep still holds; its workers must be gone."""
        for run_id, generation in self._newest().items():
            claim = self._read(run_id, generation)
            if claim is not None and claim.owner == owner:
                self.release(claim)

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
        try:
            return Claim(**json.loads(content))
        except (ValueError, TypeError):
            return Claim(run_id, generation, "", host="?", pid=0, token="", heartbeat=self._born(path), ttl=self.ttl)

    def _born(self, path: str) -> float:
        changed = self.files.fs.get_file_info(self.files.full(path)).mtime
        return changed.timestamp() if changed is not None else 0.0

    def _create(self, claim: Claim) -> bool:
        if self.files.remote:
            self.files.write(claim.path, _encode(claim))
            time.sleep(SETTLE)
            found = self._read(claim.run_id, claim.generation)
            return found is not None and found.token == claim.token
        target = Path(self.files.full(claim.path))
        self.files.make_folder(target.parent)
        try:
            fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            return False
        try:
            os.write(fd, _encode(claim))
        except OSError:
            with contextlib.suppress(OSError):
                target.unlink()
            raise
        finally:
            os.close(fd)
        return True


def _encode(claim: Claim) -> bytes:
    return json.dumps(asdict(claim)).encode()


def _process_space() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return True
