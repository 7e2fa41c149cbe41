"""Work in a process of its own, for what may end the whole process: an instruction that the machine lacks, say."""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
from collections.abc import Callable

from emi_bench.testing.failure import CheckFailed, NotRun


def apart(work: Callable[[], None]) -> None:
    """Do it in a fork. A failure there is raised here; a process that dies of a signal says nothing of the method."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        faulthandler.disable()
        status = 1
        try:
            work()
            status = 0
        except CheckFailed as e:
            os.write(write, pickle.dumps((e.message, e.where, e.trace[-4000:])))
        finally:
            os._exit(status)
    os.close(write)
    try:
        with os.fdopen(read, "rb") as pipe:
            told = pipe.read()
    except BaseException:  # the time is over
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        raise NotRun(f"this machine ends it with {signal.Signals(os.WTERMSIG(status)).name}")
    if status:
        raise CheckFailed(*pickle.loads(told)) if told else CheckFailed("its process ended without a word")
