"""What identifies a run: method and its resolved constants, data set, memory, seed, protocol."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from emi_bench.data import DataInfo, Reduction, get_info
from emi_bench.data.catalogue import BUILT_IN
from emi_bench.errors import UserError
from emi_bench.methods import Method, MethodConfig, get_method, plugin_file
from emi_bench.problem import Problem
from emi_bench.registry import did_you_mean

M = TypeVar("M", bound=BaseModel)


class Protocol(BaseModel):
    """How the stream is presented; the same for every method of a comparison. The defaults are the paper's."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    n_tasks: int | None = Field(None, ge=1)
    """Tasks the classes are split into; the data set's unless given."""
    batch: int = Field(10, ge=1)
    """Stream samples a step."""
    replay_batch: int = Field(64, ge=1)
    """Memory samples a step."""
    width: int = Field(20, ge=1)
    """nf of the reduced ResNet-18."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Networks in bfloat16 autocast (losses stay in fp32) or everything in fp32."""
    reservoir: Literal["batched", "textbook"] = "batched"
    """The replay papers' reservoir or Vitter's."""
    class_order: Literal["seed", "natural"] = "seed"
    """Classes in an order drawn from the seed, or 0, 1, 2 ..."""
    image_size: int | None = Field(None, ge=4)
    """Side in pixels that images are averaged down to, a divisor of their own; theirs unless given."""
    train_per_class: int | None = Field(None, ge=1)
    """Training images a class, the first of the published order; all unless given."""
    test_per_class: int | None = Field(None, ge=1)
    """Test images a class, the first of the published order; all unless given."""

    @property
    def reduction(self) -> Reduction:
        """What is kept of the data set."""
        return Reduction(self.image_size, self.train_per_class, self.test_per_class)


#: Fields of version 0.1.0: always part of a run's id. Any other enters only where it is not at its default, so that the
#: ids of stored runs stay when a field is added.
FIRST_FIELDS = frozenset({"n_tasks", "batch", "replay_batch", "width", "precision", "reservoir", "class_order"})


class RunSpec(BaseModel):
    """A run, fully resolved. `variant`, `features` and `source` are not part of its identity."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: str
    method_version: int
    config: dict[str, Any]
    dataset: str
    data_fingerprint: str | None = None  #: of data that is not built in: its name says nothing of its content
    memory: int
    seed: int
    protocol: Protocol
    variant: str = ""  #: a sweep's name for this config, "" for the default
    features: bool = False  #: export features after the last task
    source: str = ""  #: how the data set is loaded, where that is not its name

    def identity(self) -> dict[str, Any]:
        """What the run's id is made of."""
        spec = self.model_dump(mode="json", exclude={"variant", "features", "source"})
        config = get_method(self.method).config_class
        plain = {k: config.model_fields[k].default for k in config.added}
        spec["config"] = {
            k: v for k, v in spec["config"].items() if k not in config.cosmetic and (k not in plain or v != plain[k])
        }
        default = Protocol().model_dump(mode="json")
        spec["protocol"] = {k: v for k, v in spec["protocol"].items() if k in FIRST_FIELDS or v != default[k]}
        return spec

    @cached_property
    def run_id(self) -> str:
        """sha256 of the canonical JSON of `identity()`."""
        text = json.dumps(self.identity(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

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

    def method_config(self) -> MethodConfig:
        """The method's constants as its own config object."""
        return get_method(self.method).config_class(**self.config)

    def command(
        self, *, results: str = "results", data_root: Path | None = None, device: str | None = None, threads: int = 1
    ) -> str:
        """What a user types to get this run again, in the places and on the device that are named."""
        method = get_method(self.method)
        words = ["emi-bench", "run", "--method", self.method, "--dataset", self.source or self.dataset]
        if self.memory:
            words += ["--memory", str(self.memory)]
        words += ["--seed", str(self.seed)]
        info = get_info(self.source or self.dataset, data_root)
        protocol = Protocol(n_tasks=info.n_tasks)
        changed = {f"protocol.{k}": v for k, v in self.protocol.model_dump().items() if v != getattr(protocol, k)}
        default = method.config_class().resolve(make_problem(info, self.memory, self.protocol))
        plain = default.model_dump(mode="json")
        changed |= {k: v for k, v in self.config.items() if v != plain[k]}
        if plugin := plugin_file(method):
            words += ["--plugin", plugin]
        for key, value in changed.items():
            words += ["--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
        words += ["--features"] if self.features else []
        words += ["--results", results] if results != "results" else []
        words += ["--data-root", str(data_root)] if data_root else []
        words += ["--device", device] if device else []
        words += ["--threads", str(threads)] if threads != 1 else []
        return shlex.join(words)


def make_problem(info: DataInfo, memory: int, protocol: Protocol) -> Problem:
    """The experiment's shape, as a method is told it."""
    assert protocol.n_tasks is not None
    info = protocol.reduction.of(info)
    return Problem(
        dataset=info.name,
        n_classes=info.n_classes,
        n_tasks=protocol.n_tasks,
        image_size=info.image_size,
        memory=memory,
        batch=protocol.batch,
        replay_batch=protocol.replay_batch,
        width=protocol.width,
        reservoir=protocol.reservoir,
        mean=info.mean,
        std=info.std,
    )


def resolve(
    method: str,
    dataset: str,
    *,
    memory: int = 0,
    seed: int = 0,
    config: Mapping[str, Any] | None = None,
    protocol: Mapping[str, Any] | None = None,
    variant: str = "",
    features: bool = False,
    root: Path | None = None,
) -> RunSpec:
    """Check what a user asked for and fill in everything that follows from it."""
    cls = get_method(method)
    info = get_info(dataset, root)
    settings = check_keys(Protocol, protocol or {}, "protocol")
    settings.reduction.check(info)
    settings = settings.model_copy(update={"n_tasks": check_tasks(info, settings.n_tasks)} | _whole(info, settings))
    memory = check_memory(cls, info, memory)
    if seed < 0:
        raise UserError(f"seed {seed} is negative", hint="seeds are 0, 1, 2 ...")
    problem = make_problem(info, memory, settings)
    resolved = check_keys(cls.config_class, config or {}, f"config of {method}").resolve(problem)
    return RunSpec(
        method=method,
        method_version=cls.version,
        config=resolved.model_dump(mode="json"),
        dataset=info.name,
        data_fingerprint=None if dataset in BUILT_IN else info.fingerprint,
        memory=memory,
        seed=seed,
        protocol=settings,
        variant=variant,
        features=features,
        source=_source(dataset) if info.own else "",
    )


def _whole(info: DataInfo, protocol: Protocol) -> dict[str, None]:
    """The fields that ask for all there is, as if they had not been given: one run has one id."""
    asked = {
        "image_size": protocol.image_size == info.image_size,
        "train_per_class": protocol.train_per_class == info.n_train / info.n_classes and info.name in BUILT_IN,
        "test_per_class": protocol.test_per_class == info.n_test / info.n_classes and info.name in BUILT_IN,
    }
    return {key: None for key, whole in asked.items() if whole}


def _source(dataset: str) -> str:
    """A user's own data by its absolute path: a run may start in another folder."""
    kind, _, path = dataset.partition(":")
    return f"{kind}:{Path(path).expanduser().absolute()}"


def check_tasks(info: DataInfo, asked: int | None, words: str = "--set protocol.n_tasks=N") -> int:
    """The number of tasks; `words` is how the user says it."""
    n = asked or info.n_tasks
    divisors = [t for t in range(1, info.n_classes + 1) if info.n_classes % t == 0]
    hint = f"{info.n_classes} classes can be split into {', '.join(map(str, divisors))} tasks: {words}"
    if n is None:
        raise UserError(f"{info.name} does not say into how many tasks it is split", hint=hint)
    if n not in divisors:
        raise UserError(f"{info.n_classes} classes of {info.name} do not split into {n} equal tasks", hint=hint)
    return n


def check_memory(cls: type[Method], info: DataInfo, memory: int, words: str = "--memory {}") -> int:
    """The size of the memory, 0 for a method without one; `words` is how the user says it."""
    if memory < 0:
        raise UserError(f"memory {memory} is negative", hint=f"{words.format('N')} is the number of images to keep")
    if not cls.uses_memory:
        return 0
    if memory == 0:
        raise UserError(
            f"{cls.name} needs a memory", hint=f"give it one: {words.format(20 * info.n_classes)}, for example"
        )
    if memory < info.n_classes:
        raise UserError(
            f"memory {memory} is smaller than the {info.n_classes} classes of {info.name}",
            hint="a class without a single stored image cannot be replayed: "
            f"use {words.format(info.n_classes)} or more",
        )
    return memory


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


def described(model: type[BaseModel], key: str) -> str:
    """What a key of a model means, in its own words; empty where it has none."""
    field = model.model_fields.get(key.split(".")[0])
    return f"{key}: {field.description}" if field is not None and field.description else ""
