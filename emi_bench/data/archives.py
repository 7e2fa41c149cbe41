"""Published archives. Zips are read in place, never unpacked; one whose names point outside of it is refused."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from emi_bench.errors import UserError


@dataclass(frozen=True)
class Remote:
    """A published archive."""

    filename: str
    md5: str
    url: str
    megabytes: int


def md5_of(path: Path) -> str:
    """The md5 of a file; the publishers of these archives give no other checksum."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def open_zip(path: Path) -> zipfile.ZipFile:
    """A zip whose names all stay inside of it."""
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, EOFError, ValueError) as e:
        raise UserError(
            f"{path} is not a readable zip archive ({e})", hint="It is cut short or damaged: get it again."
        ) from e
    for name in archive.namelist():
        if _escapes(name):
            archive.close()
            hint = "Do not use this archive; get the original."
            raise UserError(f"{path} holds the unsafe path {name!r}", hint=hint)
    return archive


def _escapes(name: str) -> bool:
    """Absolute, on a drive, or upwards, by the rules of any system.

    >>> [_escapes(name) for name in ("a/b..c", "../a", "/a", "a/../../b", "C:a", "a\\\\..\\\\b")]
    [False, True, True, True, True, True]
    """
    parts = name.replace("\\", "/").split("/")
    return parts[0] == "" or ".." in parts or ":" in parts[0]


def zip_signature(path: Path) -> str:
    """The content of a zip without reading it: names, sizes and checksums from its directory."""
    with open_zip(path) as archive:
        entries = sorted((e.filename, e.file_size, e.CRC) for e in archive.infolist())
    return hashlib.sha256(repr(entries).encode()).hexdigest()


def files_signature(folder: Path, names: Iterable[str]) -> str:
    """The content of files without reading them: names, sizes and times of change."""
    stats = [(name, (folder / name).stat()) for name in names]
    return hashlib.sha256(repr([(name, s.st_size, s.st_mtime_ns) for name, s in stats]).encode()).hexdigest()
