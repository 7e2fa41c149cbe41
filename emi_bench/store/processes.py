"""Which process, on which machine; and whether it still lives."""

from __future__ import annotations

import hashlib
import os
import re
import socket
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


def surely_dead(name: str) -> bool:
    """Whether the process whose tag is in a name is known to be gone: it was on this machine, and is no more.

    >>> surely_dead(f"_a.{tag()}.tmp"), surely_dead("_a.tmp")
    (False, False)
    """
    found = _TAG.search(name)
    return found is not None and found[1] == _machine() and not running(int(found[2]))
