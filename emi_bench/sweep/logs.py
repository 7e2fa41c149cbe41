"""What a run printed and how far it got, kept in the store: `_logs/<run_id>.txt`, of every sitting."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

from emi_bench.errors import UserError
from emi_bench.store.files import Files
from emi_bench.store.patient import PatientFiles

FOLDER = "_logs"
MOST = 64_000  # bytes of a log: the end counts
EVERY = 10.0  # seconds between two writings


class RunLog:
    """The log of one run. A store that cannot take it now costs the log, never the run."""

    def __init__(self, uri: str, run_id: str) -> None:
        self._files, self._path = PatientFiles(uri, patience=0), f"{FOLDER}/{run_id}.txt"
        self._text = ""
        self._former: str | None = None
        self._saved = time.monotonic()

    @contextlib.contextmanager
    def taking(self) -> Iterator[None]:
        """Take what is printed, beside where it goes anyway. A worker has one run at a time."""
        former = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = _Tee(sys.stdout, self), _Tee(sys.stderr, self)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = former
            self.save()

    def begin(self, told: str) -> None:
        self.line(f"--- {time.strftime('%Y-%m-%d %H:%M:%S')} {socket.gethostname()}, process {os.getpid()}: {told}")

    def line(self, text: str) -> None:
        self.add(text + "\n")
        if time.monotonic() - self._saved > EVERY:
            self.save()

    def add(self, text: str) -> None:
        self._text = (self._text + text)[-MOST:]

    def save(self) -> None:
        """Bring it to the store; nothing is written of a run that said nothing."""
        if not self._text:
            return
        self._saved = time.monotonic()
        with contextlib.suppress(OSError):
            if self._former is None:
                self._former = (self._files.read(self._path) or b"").decode(errors="replace")
            self._files.write(self._path, (self._former + self._text)[-MOST:].encode())


class _Tee:
    """A stream that also keeps what goes through. Everything else is the stream's, so that a debugger can use it."""

    def __init__(self, stream: Any, log: RunLog) -> None:
        self._stream, self._log = stream, log

    def write(self, text: str) -> int:
        self._log.add(text)
        return int(self._stream.write(text) or 0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def read_log(files: Files, run_id: str) -> str:
    """The log of a run; empty where there is none."""
    return (files.read(f"{FOLDER}/{run_id}.txt") or b"").decode(errors="replace")


def find_run(files: Files, start: str) -> str:
    """The run whose id begins so."""
    ids = [p.rpartition("/")[2].removesuffix(".txt") for p in files.list(FOLDER, recursive=False)]
    found = [run_id for run_id in ids if run_id.startswith(start) and not run_id.startswith("_")]
    if len(found) != 1:
        n = f"{len(found)} runs have" if found else "no run has"
        raise UserError(
            f"{n} a log and an id that begins with '{start}'",
            hint="`emi-bench failures` and load_runs() tell ids; runs of `emi-bench run` keep no log",
        )
    return found[0]
