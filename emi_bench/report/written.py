"""Which files of a folder a report wrote, so that the next one can remove those it no longer has."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable
from pathlib import Path

OUTPUTS = ("tables", "figures", "html")
MANIFEST = ".report-files"  #: the list, one path a line


def part_of(name: str) -> str:
    """Which part of a report a file belongs to, by its path inside the folder.

    >>> part_of("figures/cost.pdf"), part_of("index.html"), part_of("claims.csv")
    ('figures', 'html', 'tables')
    """
    return "figures" if name.startswith("figures/") else "html" if name == "index.html" else "tables"


def clear_old(out: Path, written: Iterable[Path], parts: Collection[str]) -> None:
    """Remove what an earlier report wrote for these parts and this one did not; then note what is there now.

    Only files on the earlier report's list are removed. Parts that were not asked for stay, and stay on the list.
    """
    now = {p.relative_to(out).as_posix() for p in written}
    before = _listed(out) - now
    for name in before:
        if part_of(name) in parts:
            with contextlib.suppress(FileNotFoundError):
                (out / name).unlink()
    kept = {name for name in before if (out / name).is_file()}
    out.mkdir(parents=True, exist_ok=True)
    (out / MANIFEST).write_text("".join(f"{name}\n" for name in sorted(now | kept)), encoding="utf-8", newline="\n")


def _listed(out: Path) -> set[str]:
    """The files on the list that lie inside the folder."""
    try:
        lines = (out / MANIFEST).read_text("utf-8").splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        return set()
    inside = out.resolve()
    return {
        name
        for name in lines
        if name and (out / name).is_file() and (out / name).parent.resolve().is_relative_to(inside)
    }
