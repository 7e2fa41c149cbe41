"""Rows, columns and metrics: what a cell of a table is named by, and how the names are printed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from emi_bench import reference
from emi_bench.facts import Facts, Role, built_in_facts
from emi_bench.facts import order as facts_order
from emi_bench.run.spec import Protocol

Spread = Literal["std", "sem", "ci95"]
SPREADS: dict[Spread, str] = {
    "std": "sample standard deviation (ddof=1)",
    "sem": "standard error of the mean",
    "ci95": "half-width of the 95 % t interval of the mean",
}
Kind = Literal["accuracy", "forgetting", "incremental", "variants", "ablation", "alpha", "prototypes", "efficiency"]
Pairs = tuple[tuple[str, Any], ...]  #: a protocol's fields that are set, by name


@dataclass(frozen=True)
class Metric:
    """A column of the runs, in which tables it is printed and how, and which way is better."""

    name: str
    title: str
    kind: Kind
    higher: bool
    scale: float = 100.0
    key: str = ""  #: in the page's styles and data
    short: str = ""  #: what the page's switch calls it
    words: str = ""  #: how it is computed, for captions


ACCURACY = Metric("average_accuracy", "Average accuracy", "accuracy", True, key="acc", short="Accuracy")
FORGETTING = Metric(
    "forgetting", "Average forgetting", "forgetting", False, key="forg", short="Forgetting",
    words="Forgetting: mean over the first T-1 tasks of the best accuracy before the last task minus the last",
)  # fmt: skip
FORGETTING_RAPTOR = Metric(
    "forgetting_raptor", "Average forgetting (T tasks, all rows)", "forgetting", False, key="raptor",
    short="Forgetting (T tasks)",
    words="Forgetting: mean over all T tasks of the best accuracy of all rows minus the last",
)  # fmt: skip
INCREMENTAL = Metric(
    "average_incremental_accuracy", "Average incremental accuracy", "incremental", True, key="inc", short="Incremental"
)
#: What the tables of a grid are about, in order; the page switches between them.
PRINTED = (ACCURACY, FORGETTING, FORGETTING_RAPTOR, INCREMENTAL)
TIME = Metric("ms_per_batch", "Training time (ms per batch)", "efficiency", False, 1.0)
MEMORY = Metric("peak_memory_bytes", "Peak memory (GB)", "efficiency", False, 1e-9)
#: By the names that the reference files give them.
TABLE_METRICS: dict[str, Metric] = {m.name: m for m in (*PRINTED, TIME, MEMORY)} | {"memory_gb": MEMORY}
FORGETTINGS: dict[str, Metric] = {"paper": FORGETTING, "raptor": FORGETTING_RAPTOR}


@dataclass(frozen=True)
class Setting:
    """A column: data set, tasks, memory, and how the stream was presented."""

    dataset: str
    n_tasks: int
    memory: int
    protocol: Pairs

    @property
    def slug(self) -> str:
        """For file names."""
        odd = {k: str(v) for k, v in odd_protocol(self.protocol).items()}
        short = {
            k: v if re.fullmatch(r"[\w.-]{1,20}", v) else hashlib.sha256(v.encode()).hexdigest()[:8]
            for k, v in odd.items()
        }
        extra = "".join(f"_{k}{v}" for k, v in short.items())
        return f"{self.dataset}_t{self.n_tasks}_m{self.memory}{extra}".replace(".", "p")

    @property
    def title(self) -> str:
        """`CIFAR-10 M=0.5k`"""
        return f"{dataset_title(self.dataset)} {memory_title(self.memory)}"

    @property
    def family(self) -> tuple[str, int, Pairs]:
        """What it shares with the columns of other memories."""
        return (self.dataset, self.n_tasks, self.protocol)

    @property
    def budget(self) -> float | None:
        """Compute for a batch in steps of ER, None where the stream waits."""
        found: Any = dict(self.protocol).get("budget")
        return None if found is None else float(found)


@dataclass(frozen=True)
class Row:
    """A row: a method with its default constants (`variant` "") or a named change of them.

    `facts` are those stored with its runs; a built-in method that has not run is known by its source.
    """

    method: str
    variant: str = ""
    facts: Facts | None = field(default=None, compare=False)

    @property
    def known(self) -> Facts:
        return self.facts or built_in_facts().get(self.method) or Facts(title=self.method)

    @property
    def title(self) -> str:
        title = self.known.title or self.method
        return f"{title} [{self.variant}]" if self.variant else title

    @property
    def role(self) -> Role:
        return self.known.role

    @property
    def uses_memory(self) -> bool:
        return self.known.uses_memory

    @property
    def cite(self) -> str:
        return self.known.cite

    @property
    def order(self) -> tuple[Any, ...]:
        """The bounds, the paper's rows, methods beyond it, a user's own, last ours; variants beside their default."""
        ours = self.role == "ours"
        place = facts_order(self.known.place, self.method)
        return (ours, self.role != "bound", self.own, *place, ours and not self.variant, self.variant)

    @property
    def own(self) -> bool:
        """Whether the method is a user's own, of a plugin."""
        return self.method not in built_in_facts()


@cache
def papers_rows() -> list[Row]:
    """The fifteen rows of its tables."""
    return [Row(name) for name, facts in built_in_facts().items() if facts.place is not None]


def papers_bounds() -> tuple[Row, Row]:
    """The lower and the upper one."""
    low, high = (row for row in papers_rows() if row.role == "bound")
    return low, high


def competitors() -> list[str]:
    """The paper's methods without the bounds: everyone that a ranking or a sentence may compare."""
    return [row.method for row in papers_rows() if row.role != "bound"]


@cache
def usual_protocol() -> dict[str, Any]:
    """The default, which is the paper's as far as it states one."""
    return Protocol().model_dump(exclude={"n_tasks"})


def odd_protocol(protocol: Pairs) -> dict[str, Any]:
    """Where a protocol differs from the default (precision is shown when not fp32)."""
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
