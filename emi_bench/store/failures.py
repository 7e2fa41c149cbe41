"""Runs that failed by themselves: one JSON each under `_failures/`, until the run succeeds."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from emi_bench.store.files import Files

if TYPE_CHECKING:
    from emi_bench.run.spec import RunSpec

FOLDER = "_failures"


@dataclass(frozen=True)
class Failure:
    """Why a run ended without a result."""

    run_id: str
    label: str
    error: str  #: type and message, one line
    traceback: str
    command: str  #: what repeats it alone
    spec: dict[str, Any]
    sweep: str = ""
    count: int = 1  #: times in a row
    host: str = field(default_factory=socket.gethostname)
    when: float = field(default_factory=time.time)


class Failures:
    """The failures of a store."""

    def __init__(self, files: Files) -> None:
        self.files = files

    def record(
        self, spec: RunSpec, error: BaseException, traceback: str, sweep: str = "", command: str = ""
    ) -> Failure:
        """Write down why a run failed and what repeats it; a former failure of the same run is counted."""
        former = self.get(spec.run_id)
        failure = Failure(
            run_id=spec.run_id,
            label=spec.label,
            error=one_line(error),
            traceback=traceback,
            command=command or spec.command(results=self.files.uri),
            spec=spec.model_dump(mode="json"),
            sweep=sweep,
            count=former.count + 1 if former else 1,
        )
        self.files.write(_path(spec.run_id), json.dumps(asdict(failure), indent=1).encode())
        return failure

    def get(self, run_id: str) -> Failure | None:
        content = self.files.read(_path(run_id))
        if content is None:
            return None
        try:
            return Failure(**json.loads(content))
        except (ValueError, TypeError):
            return None

    def all(self) -> dict[str, Failure]:
        """Every failure on record, by run_id."""
        ids = [p.rpartition("/")[2].removesuffix(".json") for p in self.files.list(FOLDER) if p.endswith(".json")]
        found = {run_id: self.get(run_id) for run_id in ids if not run_id.startswith("_")}
        return {run_id: f for run_id, f in found.items() if f is not None}

    def forget(self, run_id: str) -> None:
        self.files.delete(_path(run_id))


def one_line(error: BaseException) -> str:
    """`ValueError: the message`, however long and broken the message is.

    >>> one_line(ValueError("a\\nb"))
    'ValueError: a b'
    """
    text = " ".join(str(getattr(error, "message", "") or error).split())
    name = type(error).__name__
    return f"{name}: {text}"[:300] if name != "UserError" else text[:300]


def _path(run_id: str) -> str:
    return f"{FOLDER}/{run_id}.json"
