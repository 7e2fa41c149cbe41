"""All checks of one method, one after the other: each with a time limit, and what the method prints kept apart."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from emi_bench.errors import UserError, line_in
from emi_bench.methods import load_plugin
from emi_bench.testing.checks import CHECKS, Check
from emi_bench.testing.data import register_check_data
from emi_bench.testing.failure import CheckFailed, NotRun, SourceFile, TimeOut, place
from emi_bench.testing.subject import Subject

BEFORE = "it fails before"
GRACE = 10.0  #: seconds after which a method that does not even react to the time limit ends the process


@dataclass(frozen=True)
class CheckResult:
    """What became of one check."""

    check: str
    sentence: str
    status: Literal["ok", "failed", "not run"]
    message: str = ""
    where: str = ""  #: file:line
    trace: str = ""
    seconds: float = 0.0


def examine(
    name: str,
    *,
    config: Mapping[str, Any] | None = None,
    time_limit: float = 60.0,
    on_check: Callable[[Check], None] = lambda check: None,
    checks: Sequence[Check] = CHECKS,
) -> list[CheckResult]:
    """Every check of a registered method. A check that fails never stops the others, unless they could say nothing.

    >>> [(o.check, o.status) for o in examine("finetune", checks=CHECKS[:2])]
    [('signatures', 'ok'), ('documented', 'ok'), ('quiet', 'ok')]
    """
    register_check_data()
    subject = Subject(name, config)
    printed = Prints(subject.source)
    results: list[CheckResult] = []
    for check in checks:
        on_check(check)
        failed = {o.check for o in results if o.status == "failed"}
        late = any(o.message == _late(time_limit) for o in results)
        if late or failed & check.needs:
            results.append(CheckResult(check.name, check.sentence, "not run", BEFORE))
            continue
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            result = _result(check, subject, time_limit)
        told = any(o.trace and result.trace and o.where == result.where for o in results)
        results.append(CheckResult(check.name, check.sentence, "not run", BEFORE) if told else result)
    return [*results, printed.result()]


def examine_file(path: Path, *, time_limit: float = 60.0, **options: Any) -> dict[str, list[CheckResult]]:
    """Every check of every method of a user's file, by name; a file without one has the result of its import."""
    file = path.expanduser().resolve()
    message, where, names = "", place(file, None), []
    try:
        with limited(time_limit), contextlib.redirect_stdout(io.StringIO()):
            names = load_plugin(file)
    except UserError as e:
        cause = e.__cause__ or e
        message, where = f"it cannot be imported: {type(cause).__name__}: {cause}", place(file, line_in(file, cause))
    except TimeOut as e:
        message, where = _late(time_limit), place(file, line_in(file, e))
    if names:
        return {name: examine(name, time_limit=time_limit, **options) for name in names}
    message = message or "it defines no method: a class that inherits Method and has a `name`"
    return {"": [CheckResult("imports", "The file can be imported and defines a method.", "failed", message, where)]}


def _result(check: Check, subject: Subject, time_limit: float) -> CheckResult:
    began = time.perf_counter()
    status: Literal["ok", "failed", "not run"] = "ok"
    message = where = trace = ""
    try:
        with limited(time_limit):
            check.run(subject)
    except CheckFailed as e:
        status, message, where, trace = "failed", e.message, e.where, e.trace
    except NotRun as e:
        status, message = "not run", str(e)
    except TimeOut as e:
        status = "failed"
        message = _late(time_limit)
        where = subject.source.raised(e) or subject.source.function("observe")
    return CheckResult(check.name, check.sentence, status, message, where, trace, time.perf_counter() - began)


def _late(time_limit: float) -> str:
    return f"there is no end after {time_limit:.0f} s: it never returns, or it is far too slow"


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises `TimeOut` inside when the time is over; where not even that helps, the process says where and ends."""
    end = time.monotonic() + seconds - _kept_waiting()

    def over(number: int, frame: Any) -> None:
        left = end + _kept_waiting() - time.monotonic()
        if left < 0.1:
            raise TimeOut
        arm(left)

    def arm(left: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, left, 1.0)  # again and again: a bare `except` may have swallowed it
        with contextlib.suppress(io.UnsupportedOperation, AttributeError):  # no real file behind it, as in a notebook
            faulthandler.dump_traceback_later(left + GRACE, exit=True, file=sys.__stderr__ or sys.stderr)

    before = signal.signal(signal.SIGALRM, over)
    arm(seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        faulthandler.cancel_dump_traceback_later()


def _kept_waiting() -> float:
    """Seconds in which this process could have run and others had the cores: not the method's fault. Linux tells it."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


class Prints(io.TextIOBase):
    """Takes what a method prints, and remembers how much and from where."""

    MOST = 5  #: lines that are nobody's business: a notice at the beginning, say

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.lines = 0
        self.first = ""
        self.where = ""

    def write(self, text: str) -> int:
        where = self.source.called_from(sys._getframe(1))
        if where:
            self.lines += text.count("\n")
            self.first = self.first or text.strip()[:60]
            self.where = self.where or where
        return len(text)

    def result(self) -> CheckResult:
        sentence = "It prints nothing in its steps."
        if self.lines <= self.MOST:
            return CheckResult("quiet", sentence, "ok")
        told = f"it prints {self.lines} lines, '{self.first}' first: a sweep would drown in them; return loss terms"
        return CheckResult("quiet", sentence, "failed", told, self.where)
