"""What the user asked for: one object from the command line to the worker."""

from __future__ import annotations

import os
import shlex
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emi_bench.store.defaults import PATIENCE, TTL
from emi_bench.sweep.grammar import sweep_word


@dataclass(frozen=True)
class Asked:
    """The words of a command: which cells, in which places, how."""

    file: Path
    results: str = "results"
    data_root: Path | None = None
    only: list[str] = field(default_factory=list)
    seeds: str | None = None
    limit: int | None = None
    plugins: list[Path] = field(default_factory=list)
    executor: str = "ray"
    address: str | None = None
    max_concurrent: int | None = None
    autoscaling: bool = False
    fail_fast: bool = False
    shard: tuple[int, int] | None = None  #: this one, of so many
    time: float | None = None  #: seconds a run may take
    log: str | None = None
    claim_seconds: float = TTL
    patience: float = PATIENCE
    words: tuple[str, ...] = ()  #: of `emi-bench sweep`, as they were typed
    owner: str = field(default_factory=lambda: uuid.uuid4().hex)  #: of the claims: this invocation

    def again(self) -> str:
        """The command that goes on: the one that was typed; or, from another command, a sweep in the same places."""
        return typed("sweep", *self.words) if self.words else self.told("sweep")

    def told(self, command: str) -> str:
        """A command on the same sweep in the same places; on the same cells, but for the report, which takes all."""
        cells = {} if command == "report" else {"only": self.only, "seeds": self.seeds}
        places = {"results": self.results, "data_root": self.data_root}
        return typed(command, sweep_word(self.file), **cells, **places, plugin=self.plugins)

    def failures(self) -> str:
        """The command that shows the tracebacks."""
        return typed("failures", results=self.results)


def cluster_of(address: str | None) -> str | None:
    """The Ray cluster that is meant: the one that is named, else the environment's; None is this machine."""
    return address or os.environ.get("RAY_ADDRESS") or None


def typed(*words: object, **options: Any) -> str:
    """A command as a user types it; options that are None, empty or the usual place are left out, lists repeated.

    >>> typed("sweep", Path("my file.yaml"), only=["a=1", "b=2"], data_root="here", limit=None, results="results")
    "emi-bench sweep 'my file.yaml' --only a=1 --only b=2 --data-root here"
    """
    told = ["emi-bench", *map(str, words)]
    for name, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            if one is not None and (name, one) != ("results", Asked.results):
                told += [f"--{name.replace('_', '-')}", str(one)]
    return shlex.join(told)
