"""Decoded images on disk, so that archives and thousands of JPEGs are read once.

A file of the cache is named after the content it was made from and appears by rename: it is whole or not there. When
several processes want the same one, the first makes it and the others wait. A cache that cannot be written is no error.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import numpy as np

from emi_bench.data.arrays import Arrays, checked
from emi_bench.data.info import DataInfo, info_of, own_title
from emi_bench.data.npz import DAMAGE, KEYS
from emi_bench.errors import UserError

log = logging.getLogger(__name__)

FOLDER = "_decoded"
LAYOUT = 1  #: raise it when the same source gives other arrays than before


class Cache:
    """One source's place in the cache: `path` of the source, `signature` of its content."""

    def __init__(self, root: Path, path: Path, signature: str) -> None:
        place = hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:8]
        self.folder = root / FOLDER
        self.title = own_title(path)
        self.stem = f"{self.title}-{place}"
        self.file = self.folder / f"{self.stem}-{LAYOUT}-{signature[:16]}.npz"

    def arrays(self, make: Callable[[], Arrays]) -> Arrays:
        """The arrays from the cache, or from `make`, whose result is then kept."""
        found = self._read()
        if found is not None:
            return found
        with self._alone():
            found = self._read()
            if found is not None:
                return found
            log.info("reading %s for the first time; the result is kept in %s", self.stem, self.file)
            arrays = make()
            self._write(arrays)
            return arrays

    def info(self) -> DataInfo | None:
        """What is known of the cached arrays, without reading them; None if there is nothing."""
        with suppress(*DAMAGE, TypeError), np.load(self.file, allow_pickle=False) as kept:
            known = json.loads(str(kept["info"]))
            lists = {"mean": known["mean"], "std": known["std"], "class_names": kept["class_names"].tolist()}
            return DataInfo(**known | {key: tuple(value) for key, value in lists.items()})
        return None

    def _read(self) -> Arrays | None:
        if not self.file.exists():
            return None
        try:
            with np.load(self.file, allow_pickle=False) as kept:
                names = tuple(map(str, kept["class_names"].tolist()))
                return checked(str(self.file), *(kept[key] for key in KEYS), class_names=names)
        except (*DAMAGE, UserError) as e:
            log.warning("%s is damaged (%s) and is made again", self.file, e)
            return None

    def _write(self, arrays: Arrays) -> None:
        content: dict[str, Any] = {key: getattr(arrays, key) for key in KEYS}
        content["class_names"] = np.array(arrays.class_names)
        content["info"] = np.array(json.dumps(asdict(info_of(self.title, arrays))))
        try:
            with replacing(self.file) as file:
                np.savez(file, **content)
        except OSError as e:
            log.warning("cannot keep the decoded images in %s (%s); they are decoded again next time", self.folder, e)
            return
        for stale in self.folder.glob(f"{self.stem}-*.npz"):
            if stale != self.file:
                stale.unlink(missing_ok=True)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Waits until no other process makes the same file. The lock goes with the process that holds it."""
        lock: IO[bytes] | None = None
        try:
            import fcntl

            self.folder.mkdir(parents=True, exist_ok=True)
            lock = (self.folder / f"{self.stem}.lock").open("wb")
            fcntl.flock(lock, fcntl.LOCK_EX)
        except (ImportError, OSError) as e:
            log.debug("no lock on %s: %s", self.file, e)  # then two processes may do the same work, which is harmless
        try:
            yield
        finally:
            if lock is not None:
                lock.close()


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that takes the name `path` when the block has ended well, and otherwise leaves nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)
