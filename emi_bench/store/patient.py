"""A store for long work: waits out a full disk or a place that is gone for a moment, instead of losing a run.

A results folder that vanishes (an unmounted share, a renamed folder) looks like an empty one: every run would count as
missing, and what is written would land under the mount point. So a marker file lies in the root, and as long as it is
not seen nothing is believed and nothing is written.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from emi_bench.store.defaults import PATIENCE
from emi_bench.store.files import Files
from emi_bench.store.store import Store

MARKER = "_emi-bench.json"
T = TypeVar("T")


class StoreGone(OSError):
    """The root of the store is not there."""


class PatientFiles(Files):
    """`Files` that tries again for `patience` seconds. Never makes the root: see `mark`."""

    def __init__(self, root: str | Path, patience: float = PATIENCE) -> None:
        super().__init__(root)
        self.patience = patience
        self.on_wait: Callable[[OSError], None] = lambda why: None  #: told once of everything that is waited for
        self._marker = self.full(MARKER)

    def mark(self) -> None:
        """Make the root and its marker, once, before work begins."""
        if not super().exists(MARKER):
            if not self.remote:
                Path(self.base).mkdir(parents=True, exist_ok=True)
            super().write(MARKER, json.dumps({"store": uuid.uuid4().hex}).encode())

    def exists(self, path: str) -> bool:
        return self._patiently(lambda: super(PatientFiles, self).exists(path))

    def read(self, path: str) -> bytes | None:
        return self._patiently(lambda: super(PatientFiles, self).read(path))

    def tail(self, path: str, n: int) -> bytes:
        return self._patiently(lambda: super(PatientFiles, self).tail(path, n))

    def list(self, folder: str = "", *, recursive: bool = True, hidden: bool = True) -> list[str]:
        def whole() -> list[str]:
            found = super(PatientFiles, self).list(folder, recursive=recursive, hidden=hidden)
            self.see_root()  # else some of it may only mean that the root went away in between
            return found

        return self._patiently(whole)

    def write(self, path: str, content: bytes) -> None:
        self._patiently(lambda: super(PatientFiles, self).write(path, content))

    def create(self, path: str, make: Callable[[], bytes]) -> bool:
        return self._patiently(lambda: super(PatientFiles, self).create(path, make))

    def delete(self, path: str) -> None:
        self._patiently(lambda: super(PatientFiles, self).delete(path))

    def make_folder(self, folder: Path) -> None:
        below = [f for f in (folder, *folder.parents) if f != Path(self.base) and f.is_relative_to(self.base)]
        for part in reversed(below):
            part.mkdir(exist_ok=True)

    def _patiently(self, act: Callable[[], T]) -> T:
        deadline, pause, told = time.monotonic() + self.patience, 0.1, False
        while True:
            try:
                self.see_root()
                answer = act()
                if not answer:  # "not there" may only mean that the root went away in between
                    self.see_root()
                return answer
            except OSError as e:
                if isinstance(e, FileNotFoundError) and self._root_there():
                    raise
                if isinstance(e, PermissionError) or time.monotonic() + pause > deadline:
                    raise
                if pause > 1 and not told:
                    told = True
                    self.on_wait(e)
            time.sleep(pause)
            pause = min(1.5 * pause, 10.0)

    def _root_there(self) -> bool:
        return self.remote or os.access(self._marker, os.F_OK)

    def see_root(self) -> None:
        """Raises while the root is gone."""
        if not self._root_there():
            raise StoreGone(f"the results are gone: no {MARKER} in {self.uri}")


class PatientStore(Store):
    """A store on `PatientFiles`."""

    files: PatientFiles

    def __init__(self, root: str | Path, patience: float = PATIENCE) -> None:
        super().__init__(root, PatientFiles(root, patience))
