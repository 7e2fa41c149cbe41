"""A process beside a sweep on Ray. When Ray dies, its C++ ends the process of the sweep at once; somebody has to be
left who says what that means, and who can begin anew."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

TIMES = 2  # a Ray of our own is started: once, and once more


def guarded(work: Callable[[], object], again: str, *, local: bool) -> None:
    """Do the work in a process that may die; returns, or exits, as the work does. `again` is the command that goes on,
    `local` whether the Ray is its own."""
    if sys.platform != "linux":
        work()
        return
    for time in range(TIMES):
        ended, told = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(ended)
            _die_with_parent()
            try:
                work()
            finally:  # any end that Python knows of
                os.write(told, b"!")
            return
        os.close(told)
        code = _wait(child)
        with open(ended, "rb") as pipe:
            orderly = pipe.read(1) == b"!"
        if orderly or code in (128 + signal.SIGINT, 128 + signal.SIGTERM):
            sys.exit(code)
        killed = code == 128 + signal.SIGKILL
        what = "the sweep's process was killed" if killed else "Ray went down and took the sweep with it"
        print(f"{what} (exit code {code}). Finished tasks are kept.", file=sys.stderr)
        if local and time + 1 < TIMES:
            print("starting a new Ray and going on", file=sys.stderr)
    print(f"go on with: {again}\n  or without Ray, one run at a time: {again} --executor inline", file=sys.stderr)
    sys.exit(1)


def _wait(child: int) -> int:
    """The exit code of the child; signals go to it, and Ctrl-C in a terminal reaches it only by this way."""

    def forward(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    former = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
    return status if status >= 0 else 128 - status


def _die_with_parent() -> None:
    """A killed sweep is to be dead; and it is to hear of Ctrl-C once, from its parent."""
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
