"""Keeps the memory that a step frees for the next one, where the C library is glibc.

glibc asks the kernel for every large array and gives it back when the array is freed: a step of EMI at the paper's size
has three million pages made, zeroed and mapped, and on a CPU takes twice as long for it. Numbers do not depend on where
an array lies. `python -m benchmarks.host_memory` measures it.
"""

from __future__ import annotations

import ctypes
import os

#: For processes still to be started. A run in a thread needs it so: arenas other than the main one end at 64 MB.
TUNABLES = (
    "glibc.malloc.arena_max=1:glibc.malloc.mmap_max=0:"
    "glibc.malloc.trim_threshold=1099511627776:glibc.malloc.top_pad=67108864"
)
#: For this process and its main thread: trim never, 64 MB at a time, no array with a mapping of its own.
OPTIONS = {"M_TRIM_THRESHOLD": (-1, -1), "M_TOP_PAD": (-2, 64 << 20), "M_MMAP_MAX": (-4, 0)}


def keep_freed_memory() -> bool:
    """In this process from now on; whether the C library can."""
    try:
        libc = ctypes.CDLL("libc.so.6")
        return all(libc.mallopt(option, value) == 1 for option, value in OPTIONS.values())
    except (OSError, AttributeError):
        return False


def children_keep_freed_memory() -> None:
    """Processes that this one starts, unless the user has tuned glibc himself."""
    os.environ.setdefault("GLIBC_TUNABLES", TUNABLES)


def give_memory_back() -> None:
    """What is free goes back to the system now."""
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    except (OSError, AttributeError):
        return
