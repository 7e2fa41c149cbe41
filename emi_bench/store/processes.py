"""Which process, on which machine; and whether it still lives."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import socket
import tempfile
import uuid
from functools import cache
from pathlib import Path

_TAG = re.compile(r"([0-9a-f]{8})-(\d+)-[0-9a-f]{8}")


@cache
def process_space() -> str:
    """Containers may share a host's name, not its process numbers."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def running(pid: int) -> bool:
    """Whether a process of this machine lives."""
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


@cache
def _machine() -> str:
    return hashlib.sha256(f"{socket.gethostname()} {process_space()}".encode()).hexdigest()[:8]


def tag() -> str:
    """A part of a file's name that says whose it is: `<machine>-<process>-<any>`."""
    return f"{_machine()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


def places() -> list[Path]:
    """Where folders may be made that last as long as a process, the first choice first."""
    return list(dict.fromkeys(map(Path, (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm", str(Path.home())))))


def surely_dead(name: str) -> bool:
    """Whether the process whose tag is in a name is known to be gone: it was on this machine, and is no more.

    >>> surely_dead(f"_a.{tag()}.tmp"), surely_dead("_a.tmp")
    (False, False)
    """
    found = _TAG.search(name)
    return found is not None and found[1] == _machine() and not running(int(found[2]))


def mentioned(paths: list[str]) -> set[str]:
    """Those of some paths that a living process of this machine has in its command, as its folder, or open."""
    found: set[str] = set()
    for process in Path("/proc").glob("[0-9]*") if paths else []:
        words = _words_of(process)
        found |= {path for path in paths if any(path in word for word in words)}
    return found


def _words_of(process: Path) -> list[str]:
    """Processes end while they are looked at, and some are not ours to look at."""
    words, links = [], [process / "cwd"]
    with contextlib.suppress(OSError):
        words.append((process / "cmdline").read_bytes().decode(errors="replace"))
    with contextlib.suppress(OSError):
        links += (process / "fd").iterdir()
    for link in links:
        with contextlib.suppress(OSError):
            words.append(str(link.readlink()))
    return words
