"""Rows, columns and metrics: what a cell of a table is named by, and how the names are printed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from emi_bench import reference
from emi_bench.facts import Role
from emi_bench.run import spec as run_spec

Spread = Literal["std", "sem", "ci95"]
SPREADS: dict[Spread, str] = {
    "std": "sample standard deviation (ddof=1)",
    "sem": "standard error of the mean",
    "ci95": "half-width of the 95 % t interval of the mean",
}
Protocol = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Metric:
    """A column of the runs, how it is printed and which way is better."""

    name: str
    title: str
    higher: bool
    scale: float = 100.0


ACCURACY = Metric("average_accuracy", "Average accuracy", True)
INCREMENTAL = Metric("average_incremental_accuracy", "Average incremental accuracy", True)
FORGETTING = Metric("forgetting", "Average forgetting", False)
FORGETTING_RAPTOR = Metric("forgetting_raptor", "Average forgetting (T tasks, all rows)", False)
TIME = Metric("ms_per_batch", "Training time (ms per batch)", False, 1.0)
MEMORY = Metric("peak_memory_bytes", "Peak memory (GB)", False, 1e-9)


@dataclass(frozen=True)
class Setting:
    """A column: data set, tasks, memory, and how the stream was presented."""

    dataset: str
    n_tasks: int
    memory: int
    protocol: Protocol

    @property
    def slug(self) -> str:
        """For file names."""
        odd = {k: str(v) for k, v in odd_protocol(self.protocol).items()}
        short = {k: v if len(v) < 20 else hashlib.sha256(v.encode()).hexdigest()[:8] for k, v in odd.items()}
        extra = "".join(f"_{k}{v}" for k, v in short.items())
        return f"{self.dataset}_t{self.n_tasks}_m{self.memory}{extra}".replace(".", "p")


@dataclass(frozen=True)
class Row:
    """A row: a method with its default constants (`variant` "") or a named change of them."""

    method: str
    variant: str = ""

    @property
    def title(self) -> str:
        info = reference.methods().get(self.method)
        title = info.title if info else self.method
        return f"{title} [{self.variant}]" if self.variant else title

    @property
    def role(self) -> Role:
        info = reference.methods().get(self.method)
        return info.role if info else "baseline"

    @property
    def uses_memory(self) -> bool:
        info = reference.methods().get(self.method)
        return info.uses_memory if info else True

    @property
    def cite(self) -> str:
        info = reference.methods().get(self.method)
        return info.cite if info and not self.variant else ""

    @property
    def order(self) -> tuple[int, str, str]:
        """The paper's order; a user's own method stands between the baselines and ours."""
        info = reference.methods().get(self.method)
        ours = len(reference.methods())
        place = ours - 1 if info is None else ours if info.role == "ours" else info.order
        return (place, self.method, self.variant)


def usual_protocol() -> dict[str, Any]:
    """The paper's, which is the default; it does not state the precision."""
    default = run_spec.Protocol().model_dump(mode="json", exclude={"n_tasks"})
    stated: dict[str, Any] = reference.settings()["protocol"]
    return default | stated


def odd_protocol(protocol: Protocol) -> dict[str, Any]:
    """Where a protocol differs from the paper's (precision is shown when not fp32)."""
    usual = usual_protocol()
    return {k: v for k, v in protocol if v != usual.get(k, v)}


def is_paper_setting(s: Setting) -> bool:
    """Whether the column is one of the paper's nine: data set, split, memory and protocol."""
    d = reference.settings()["datasets"].get(s.dataset)
    odd = set(odd_protocol(s.protocol)) - {"precision"}
    return d is not None and d["n_tasks"] == s.n_tasks and s.memory in d["memories"] and not odd


def dataset_title(dataset: str) -> str:
    """As the paper prints it; a user's own data set under its own name."""
    d = reference.settings()["datasets"].get(dataset)
    return str(d["title"]) if d else dataset


def memory_title(memory: int) -> str:
    """
    >>> memory_title(200), memory_title(4000), memory_title(50), memory_title(0)
    ('M=0.2k', 'M=4k', 'M=50', 'no memory')
    """
    if not memory:
        return "no memory"
    return f"M={memory / 1000:g}k" if memory >= 200 and memory % 100 == 0 else f"M={memory}"


def apart(settings: Iterable[Setting]) -> dict[Setting, str]:
    """What tells columns of one data set apart besides the memory: the protocol values that differ; "" if none do."""
    settings = list(settings)
    out = {}
    for s in settings:
        kin = [dict(k.protocol) for k in settings if (k.dataset, k.n_tasks) == (s.dataset, s.n_tasks)]
        differ = [k for k, v in s.protocol if any(other.get(k) != v for other in kin)]
        out[s] = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in s.protocol if k in differ)
    return out
