"""What identifies a run: method and its resolved constants, data set, memory, seed, protocol."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from emi_bench.errors import UserError
from emi_bench.facts import LEFT_OUT_0_1_0, Facts
from emi_bench.problem import Problem
from emi_bench.registry import described, did_you_mean

if TYPE_CHECKING:
    from emi_bench.data import Reduction

M = TypeVar("M", bound=BaseModel)


class Anytime(BaseModel):
    """When and on what accuracy is measured while the stream runs."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    every: int = Field(10, ge=1)
    """Steps of a task between two points; its last step is one in any case."""
    per_class: Annotated[int, Field(ge=1)] | Literal["all"] | None = None
    """Test images of a class, drawn by the seed, the same for every method; `all`: the whole test set. Unless given,
    100 where there are up to 20 classes, else 2000 in all: about as many as cost half of an ER run."""

    @property
    def images(self) -> int | None:
        """Of a class, once `resolve` has filled it in; None for all."""
        return self.per_class if isinstance(self.per_class, int) else None


class Protocol(BaseModel):
    """How the stream is presented; the same for every method of a comparison. The defaults are the paper's."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    n_tasks: int | None = Field(None, ge=1)
    """Tasks the classes are split into; the data set's unless given."""
    batch: int = Field(Problem.batch, ge=1)
    """Stream samples a step."""
    replay_batch: int = Field(Problem.replay_batch, ge=1)
    """Memory samples a step."""
    width: int = Field(Problem.width, ge=1)
    """nf of the reduced ResNet-18."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Networks in bfloat16 autocast (losses stay in fp32) or everything in fp32."""
    reservoir: Literal["batched", "textbook"] = Problem.reservoir
    """The replay papers' reservoir or Vitter's."""
    class_order: Literal["seed", "natural"] = "seed"
    """Classes in an order drawn from the seed, or 0, 1, 2 ..."""
    last_batch: Literal["merge", "keep", "drop"] = "merge"
    """What becomes of the images of a task that do not fill a batch: they join the last full one, are a batch of their
    own (a very small one spoils the batch statistics right before the evaluation), or are left out."""
    eval_window: int = Field(1, ge=1)
    """Evaluations whose mean is reported: after each of the last so many steps of a task. Training is the same."""
    image_size: int | None = Field(None, ge=4)
    """Side in pixels that images are averaged down to, a divisor of their own; theirs unless given."""
    train_per_class: int | None = Field(None, ge=1)
    """Training images a class, the first of the published order; all unless given."""
    test_per_class: int | None = Field(None, ge=1)
    """Test images a class, the first of the published order; all unless given."""
    stream: Literal["clear", "blurry"] = "clear"
    """Tasks one after the other, or running into each other: images come up to a few `blur` places early. Nobody is
    told where a task ends then; methods that need to know are refused."""
    blur: float = Field(500.0, gt=0)
    """Scale of the half-normal by which a blurry stream takes images early (MKD). Unused in a clear one."""
    budget: float | None = Field(None, gt=0)
    """Compute for a batch, in steps of ER: `realtime` is 1, {updates: c} is c. A method whose step costs more trains on
    every second, third ... batch only and never sees the others. None: the stream waits for everyone."""
    anytime: Anytime | None = None
    """Accuracy while the stream runs, in a file of its own: {every: 10, per_class: 100}, or {}. Training, results and
    the id are the same with and without it."""
    preset: Literal["emi", "modern"] = "emi"
    """The EMI paper's protocol, or that of the papers after it (full width, AdamW, views): it stands for other defaults
    of these fields and of each method's constants, and is not itself part of a run's id."""
    backbone: str = Problem.backbone
    """Network under the method's heads: the reduced ResNet-18, `resnet18_imagenet`, or a plugin's by its name."""
    tasks: str | None = None
    """Tasks as lists of classes, by name or number, in the order of the stream: [[cat, dog], [car, truck, ship]].
    Classes in no list are left out."""

    @field_validator("budget", mode="before")
    @classmethod
    def _as_number(cls, budget: Any) -> Any:
        if isinstance(budget, Mapping) and budget.keys() == {"updates"}:
            return budget["updates"]
        return {"none": None, "realtime": 1.0}.get(budget, budget) if isinstance(budget, str) else budget

    @field_validator("tasks", mode="before")
    @classmethod
    def _as_text(cls, tasks: Any) -> str | None:
        """Lists, or the same as JSON, which is what is kept: a value that can stand in a set or a key."""
        if tasks is None:
            return None
        try:
            groups = json.loads(tasks) if isinstance(tasks, str) else tasks
        except ValueError:
            groups = None
        fine = isinstance(groups, list | tuple) and groups and all(isinstance(g, list | tuple) and g for g in groups)
        if not fine or any(isinstance(c, bool) or not isinstance(c, int | str) for g in groups for c in g):
            raise ValueError("lists of classes are needed; a word that YAML takes for something else goes in quotes")
        return json.dumps(groups, ensure_ascii=False)

    @property
    def groups(self) -> list[list[str | int]] | None:
        """The tasks that are spelled out, None where they follow from `n_tasks`."""
        return None if self.tasks is None else json.loads(self.tasks)

    @property
    def reduction(self) -> Reduction:
        """What is kept of the data set."""
        from emi_bench.data import Reduction

        classes = None if self.groups is None else tuple(c for group in self.groups for c in group)
        return Reduction(self.image_size, self.train_per_class, self.test_per_class, classes)


#: Fields of version 0.1.0: always part of a run's id. Any other enters only where it is not at its default, so that the
#: ids of stored runs stay when a field is added.
FIRST_FIELDS = frozenset({"n_tasks", "batch", "replay_batch", "width", "precision", "reservoir", "class_order"})
_DEFAULT = Protocol().model_dump(mode="json")


def stated(protocol: Mapping[str, Any]) -> dict[str, Any]:
    """A protocol as ids have it, and files of before a field was added.

    >>> stated({"batch": 10, "last_batch": "merge", "eval_window": 5})
    {'batch': 10, 'eval_window': 5}
    """
    return {k: v for k, v in protocol.items() if k in FIRST_FIELDS or k not in _DEFAULT or v != _DEFAULT[k]}


#: What `preset: modern` stands for here; the methods know their own part (`MethodConfig.modern`).
MODERN: dict[str, Any] = {"width": 64, "reservoir": "textbook"}

#: What describes a run and does not identify it.
TOLD = {"cost", "variant", "features", "anytime", "source", "changed", "by_preset", "left_out", "facts", "plugin"}


class RunSpec(BaseModel):
    """A run, fully resolved by `run.resolve.resolve`. Plain data: reading one needs neither torch nor the method."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: str
    method_version: int
    config: dict[str, Any]
    dataset: str
    data_fingerprint: str | None = None  #: of data that is not built in: its name says nothing of its content
    memory: int
    seed: int
    protocol: Protocol
    train_every: int = 1  #: trains on every so many batches, by `protocol.budget` and the method's cost
    code_sha256: str | None = None  #: of the file of a user's own method: edited, its runs are new ones
    # From here on not part of the identity.
    cost: float | None = None  #: of a batch, in steps of ER, by the method's own declaration; where there is a budget
    variant: str = ""  #: a sweep's name for this config, "" for the default
    features: bool = False  #: export features after the last task
    anytime: Anytime | None = None  #: measure accuracy while the stream runs; None where a method has no curve
    source: str = ""  #: how the data set is loaded, where that is not its name
    changed: dict[str, Any] = Field(default_factory=dict)
    """What differs from the defaults of the method (by name) and of the protocol (`protocol.KEY`)."""
    by_preset: frozenset[str] = frozenset()  #: what of it nobody asked for but by the preset
    left_out: frozenset[str] = LEFT_OUT_0_1_0
    """Constants that are not part of the identity: those that cannot change a result, and later ones at their default.
    Files of version 0.1.0 do not say."""
    facts: Facts | None = None  #: what the method says of itself, for tables and figures; None in files of 0.1.0
    plugin: str = ""  #: the file a user's own method came from

    def identity(self) -> dict[str, Any]:
        """What the run's id is made of. What is newer than 0.1.0 enters only where it is not at its default."""
        spec = self.model_dump(mode="json", exclude=TOLD)
        if self.code_sha256 is None:
            del spec["code_sha256"]
        if self.train_every == 1:
            del spec["train_every"]
        spec["config"] = {k: v for k, v in spec["config"].items() if k not in self.left_out}
        spec["protocol"] = stated(spec["protocol"])
        spec["protocol"].pop("preset", None)
        return spec

    @cached_property
    def run_id(self) -> str:
        """sha256 of the canonical JSON of `identity()`."""
        return _sha256(self.identity())

    @cached_property
    def cell_id(self) -> str:
        """The same without the seed: one for all runs of a cell of a table."""
        return _sha256({k: v for k, v in self.identity().items() if k != "seed"})

    @property
    def n_tasks(self) -> int:
        assert self.protocol.n_tasks is not None
        return self.protocol.n_tasks

    @property
    def data_key(self) -> tuple[str, Reduction]:
        """What is loaded for this run: the data set as it was asked for, and what is kept of it."""
        return self.source or self.dataset, self.protocol.reduction

    @property
    def label(self) -> str:
        """For people: `emi[variant] cifar10 M=500 seed 3`."""
        variant = f"[{self.variant}]" if self.variant else ""
        memory = f" M={self.memory}" if self.memory else ""
        return f"{self.method}{variant} {self.dataset}{memory} seed {self.seed}"

    def command(
        self, *, results: str = "results", data_root: Path | None = None, device: str | None = None, threads: int = 1
    ) -> str:
        """What a user types to get this run again, in the places and on the device that are named."""
        words = ["emi-bench", "run", "--method", self.method, "--dataset", self.source or self.dataset]
        words += ["--memory", str(self.memory)] if self.memory else []
        words += ["--seed", str(self.seed)]
        words += ["--plugin", self.plugin] if self.plugin else []
        for key, value in self.changed.items():
            words += ["--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
        words += ["--set", f"protocol.anytime={self.anytime.model_dump_json()}"] if self.anytime else []
        words += ["--features"] if self.features else []
        words += ["--results", results] if results != "results" else []
        words += ["--data-root", str(data_root)] if data_root else []
        words += ["--device", device] if device else []
        words += ["--threads", str(threads)] if threads != 1 else []
        return shlex.join(words)


def _sha256(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def check_keys(model: type[M], values: Mapping[str, Any], where: str) -> M:
    """The model of some values; the first that does not fit is refused with what its key means."""
    try:
        return model(**values)
    except ValidationError as e:
        first = e.errors()[0]
        key = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            raise UserError(f"{where} has no key '{key}'", hint=did_you_mean(key, model.model_fields)) from e
        raise UserError(f"{where}: {key}: {first['msg']} (got {first['input']!r})", hint=described(model, key)) from e
