"""A run as the report sees it: one record of the store, with the variant named by what it changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emi_bench import metrics
from emi_bench.facts import Facts, built_in_facts
from emi_bench.report.axes import MEMORY, TIME, Row, Setting
from emi_bench.run.spec import RunSpec, stated

#: What `load_runs` must bring for a report to be made.
REQUIRED = (
    "run_id", "method", "variant", "dataset", "n_tasks", "memory", "seed", *metrics.METRICS, "matrix", "config",
    "protocol", "changed",
)  # fmt: skip
METRIC_COLUMNS = (*metrics.METRICS, TIME.name, MEMORY.name, "wall_seconds")
#: What a reader wants to know about one run, besides its numbers.
ABOUT = (
    "device", "n_params", "git_sha", "threads", "started", "finished", "versions", "data_fingerprint", "class_order",
)  # fmt: skip
PACED = ("cost", "train_every")  #: and where compute is bounded (`protocol.budget`)
LEFT_OUT: frozenset[str] = RunSpec.model_fields["left_out"].default  #: by runs that do not say
PROTOCOL = "protocol."  #: before a protocol's field among what a run changed


@dataclass(frozen=True)
class Note:
    """Something the reader must know about the input. `kind` is for tests and styling, `text` for people."""

    kind: str
    text: str


@dataclass(frozen=True, eq=False)
class Run:
    """One finished run. Accuracies in 0-1; `matrix` (T,T) with NaN above the diagonal."""

    run_id: str
    row: Row  #: its variant is "" for the method's default constants, else a name for what differs
    setting: Setting
    seed: int
    values: dict[str, float]
    matrix: NDArray[np.float64]
    config: dict[str, Any]
    changed: dict[str, Any]  #: what differs from the defaults: constants by name, the protocol's as `protocol.KEY`
    left_out: frozenset[str]  #: constants that cannot change a result
    by_preset: frozenset[str]  #: changes that a protocol's preset stands for
    source: str  #: the data set as it was asked for (npz:PATH)
    command: str
    schema_version: int
    about: dict[str, Any] = field(default_factory=dict)
    version: int = 1  #: of the method
    code: str = ""  #: the content of the file of a user's own method
    train_every: int = 1
    newest: Row | None = None  #: of a run of an older version or code, the row it would be in: see `configurations`

    @property
    def finished(self) -> str:
        """When, as a text that sorts."""
        return str(self.about.get("finished", ""))

    @property
    def joint(self) -> bool:
        """Whether all tasks were learned together: of several rows only the last exists."""
        return len(self.matrix) > 1 and bool(np.isnan(self.matrix[:-1]).all())

    @property
    def constants(self) -> dict[str, Any]:
        """The method's constants that it changed, under its preset."""
        return own_constants(self.changed, self.by_preset)

    @property
    def name(self) -> str:
        """For people: `emi[np3] cifar100 M=1000 seed 4`."""
        variant = f"[{self.row.variant}]" if self.row.variant else ""
        return f"{self.row.method}{variant} {self.setting.dataset} M={self.setting.memory} seed {self.seed}"


def own_constants(changed: Mapping[str, Any], by_preset: frozenset[str]) -> dict[str, Any]:
    """
    >>> own_constants({"protocol.width": 64, "optimizer": "adamw", "lr": 0.5}, frozenset({"optimizer"}))
    {'lr': 0.5}
    """
    return {k: v for k, v in changed.items() if not k.startswith(PROTOCOL) and k not in by_preset}


def named_variant(variant: str, constants: Mapping[str, Any]) -> str:
    """The variant by what the run did, not by who asked for it: a sweep may name the default config, a user may change
    a constant without a name.

    >>> named_variant("full", {}), named_variant("", {"lr": 0.5, "smi": False})
    ('', 'lr=0.5, smi=false')
    """
    return (variant or in_words(constants)) if constants else ""


def in_words(constants: Mapping[str, Any]) -> str:
    return ", ".join(f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in constants.items())


def _facts(told: Any, method: str) -> Facts | None:
    """As stored: a mapping in results of today, nothing in older ones. What a newer program added is left out; what an
    older one did not say is taken from the source where the method is built in."""
    if not isinstance(told, Mapping):
        return told if isinstance(told, Facts) else None
    known = built_in_facts().get(method) or Facts()
    return replace(known, **{f.name: told[f.name] for f in fields(Facts) if f.name in told})


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _whole(value: Any) -> int:
    return int(value) if value and value == value else 1


def to_run(record: Mapping[Any, Any]) -> Run:
    """One record of `load_runs`."""
    changed = dict(record["changed"])
    by_preset = frozenset(told if isinstance(told := record.get("by_preset"), list) else ())
    constants = own_constants(changed, by_preset)
    values = {c: float(record[c]) if record.get(c) is not None else float("nan") for c in METRIC_COLUMNS}
    losses = record.get("losses")
    if isinstance(losses, list) and losses and not any(losses):
        values[TIME.name] = float("nan")  # its steps only collect (GDumb): their time says nothing of its cost
    protocol = sorted((k, v) for k, v in stated(record["protocol"]).items() if k != "n_tasks")
    version = record.get("schema_version", 0)
    paced = record.get("cost", float("nan")) or float("nan")
    dataset, method = str(record["dataset"]), str(record["method"])
    return Run(
        run_id=str(record["run_id"]),
        row=Row(method, named_variant(_text(record["variant"]), constants), _facts(record.get("facts"), method)),
        setting=Setting(dataset, int(record["n_tasks"]), int(record["memory"]), tuple(protocol)),
        seed=int(record["seed"]),
        values=values,
        matrix=np.asarray(record["matrix"], dtype=np.float64),
        config=dict(record["config"]),
        changed=changed,
        left_out=frozenset(told if isinstance(told := record.get("left_out"), list) else LEFT_OUT),
        by_preset=by_preset,
        source=_text(record.get("source")) or dataset,
        command=_text(record.get("command")),
        schema_version=int(version) if version == version else 0,
        version=_whole(record.get("method_version")),
        code=_text(record.get("code_sha256")),
        train_every=_whole(record.get("train_every")),
        about={k: record[k] for k in (*ABOUT, *(PACED if paced == paced else ())) if k in record},
    )
