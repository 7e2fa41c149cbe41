"""What a sweep file may say, as far as that can be told without methods and data."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from emi_bench.errors import UserError
from emi_bench.problem import MOST_MEMORY
from emi_bench.seeds import LAST_SEED

DEFAULT_VARIANT = "default"
MOST_RUNS = 100_000  # of one file
MOST_SEEDS = 10_000  # of one file
Figure = Literal["incremental", "kde", "tsne"]  #: of the paper's, as a sweep names them


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def seconds_of(text: Any) -> Any:
    """`6h` as seconds; a number stays.

    >>> seconds_of("6h"), seconds_of("1.5m"), seconds_of(90)
    (21600.0, 90.0, 90)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([smhd])", str(text))
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]] if found else text


def parse_time(option: str, text: str) -> float:
    """The seconds that an option of the command line gives.

    >>> parse_time("--time", "6h")
    21600.0
    """
    with contextlib.suppress(ValueError):
        if (seconds := float(seconds_of(text))) > 0:
            return seconds
    raise UserError(f"{option} {text} is not a time", hint=f"write {option} 90s, 30m, 6h or 2d")


class Resources(_Strict):
    """What one run occupies. A key that is not given is taken from the level above: method, setting, sweep."""

    cpu: float | None = Field(None, gt=0)
    """CPUs, and torch threads (rounded up); 1 unless given."""
    gpu: float | Literal["auto"] | None = Field(None)
    """Share of a card, 0 to 1; `auto` (the default) packs by peak memory, and is 0 where there is no card."""
    gpu_memory: float | None = Field(None, gt=0)
    """Gigabytes of a card, for `gpu: auto`; asked of a card unless given."""
    device: Literal["auto", "cpu", "cuda"] | None = None
    """Where torch computes: `auto` is cuda for runs that hold a share of a card."""
    time: Annotated[float | None, Field(gt=0), BeforeValidator(seconds_of)] = None
    """The longest a run may take in one sitting: 90s, 30m, 6h, 2d; it then fails, with its finished tasks kept."""
    custom: dict[str, float] = Field(default_factory=dict)
    """Ray's custom resources, as in `ray start --resources '{"a100": 4}'`."""

    @field_validator("gpu")
    @classmethod
    def _one_card(cls, value: float | str | None) -> float | str | None:
        if isinstance(value, float) and not 0 <= value <= 1:
            raise ValueError("a run uses at most one card: give a share from 0 to 1, or auto")
        return value

    def over(self, below: Resources) -> Resources:
        """This, with what it leaves open taken from `below`."""
        values = {k: v for k, v in self.model_dump().items() if v is not None}
        return Resources(**(below.model_dump() | values | {"custom": below.custom | self.custom}))


#: Of a sweep that does not say.
RESOURCES = Resources(cpu=1, gpu="auto", device="auto")


class MethodEntry(_Strict):
    """A method of the sweep, with its own constants."""

    name: str
    config: dict[str, Any] = Field(default_factory=dict)
    """Constants that differ from the method's defaults, in every variant."""
    variants: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Name -> constants; one set of runs each. `default: {}` is the method as it is."""
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default_factory=dict)
    """Constant -> values; one variant for every combination."""
    resources: Resources = Resources()

    @property
    def n_configs(self) -> int:
        """How many there are, without making them."""
        return max(1, len(self.variants) + (math.prod(map(len, self.grid.values())) if self.grid else 0))

    def configs(self) -> dict[str, dict[str, Any]]:
        """All variants by name; the default's name is empty."""
        named = {"" if k == DEFAULT_VARIANT else k: v for k, v in self.variants.items()}
        for values in itertools.product(*self.grid.values()) if self.grid else ():
            point = dict(zip(self.grid, values, strict=True))
            named[",".join(f"{k}={v}" for k, v in point.items())] = point
        return {name: self.config | values for name, values in (named or {"": {}}).items()}


def _as_seeds(value: Any) -> Any:
    n = value if isinstance(value, int) else len(value) if isinstance(value, list) else 0
    if n > MOST_SEEDS:
        raise ValueError(f"{n} seeds are more than a sweep may have, {MOST_SEEDS}")
    return list(range(value)) if isinstance(value, int) and not isinstance(value, bool) else value


Seeds = Annotated[list[Annotated[int, Field(ge=0, le=LAST_SEED)]], Field(min_length=1), BeforeValidator(_as_seeds)]


class SettingEntry(_Strict):
    """A data set and the memory sizes to run it with."""

    dataset: str
    memory: Annotated[
        list[Annotated[int, Field(ge=0, le=MOST_MEMORY)]],
        Field(min_length=1),
        BeforeValidator(lambda v: v if isinstance(v, list) else [v]),
    ]
    """One size or a list; methods without a memory run once, whatever stands here."""
    methods: Annotated[list[str], Field(min_length=1)] | None = None
    """Names among the sweep's methods, where not all of them run here."""
    seeds: Seeds | None = None
    """Seeds of this setting, in place of the sweep's."""
    protocol: dict[str, Any] = Field(default_factory=dict)
    """Protocol of this setting, over the sweep's."""
    resources: Resources = Resources()

    def runs(self, entry: MethodEntry) -> bool:
        return self.methods is None or entry.name in self.methods


class ReportEntry(_Strict):
    """What `emi-bench report FILE` makes of the results."""

    tables: list[int] = Field(default_factory=list)
    """The paper's tables I-VI, by number."""
    figures: list[Figure] = Field(default_factory=list)
    """`incremental`: accuracy after each task. `kde`, `tsne`: features of runs with `features: true`."""


def _as_entry(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


class Sweep(_Strict):
    """A sweep file."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    """Letters, digits, '.', '-', '_'."""
    title: str = ""
    methods: list[Annotated[MethodEntry, BeforeValidator(_as_entry)]] = Field(min_length=1)
    """Names, or mappings with name, config, variants, grid, resources."""
    settings: list[SettingEntry] = Field(min_length=1)
    """Data sets with their memory sizes."""
    seeds: Seeds
    """A number n for seeds 0 to n-1, or a list."""
    protocol: dict[str, Any] = Field(default_factory=dict)
    """How the stream is presented, for all methods: see `emi_bench.run.spec.Protocol`."""
    resources: Resources = Resources()
    fresh_process: bool = False
    """A process of its own for every run, even where a used one would do: for measurements of time and memory."""
    features: bool = False
    """Also export features after the last task of every run."""
    plugins: list[str] = Field(default_factory=list)
    """Python files with your own methods or data sets, relative to this file."""
    report: ReportEntry = ReportEntry()

    def plugin_paths(self, file: Path) -> list[Path]:
        return [(file.parent / Path(p).expanduser()).resolve() for p in self.plugins]

    @model_validator(mode="after")
    def _countable(self) -> Sweep:
        n = sum(
            entry.n_configs * len(setting.memory) * len(self._seeds(setting))
            for setting in self.settings
            for entry in self.methods
            if setting.runs(entry)
        )
        if n > MOST_RUNS:
            raise ValueError(f"{n} runs are more than a sweep may have, {MOST_RUNS}: split it")
        return self

    def _seeds(self, setting: SettingEntry) -> list[int]:
        return self.seeds if setting.seeds is None else setting.seeds

    def parts(self) -> Iterator[RunGroup]:
        """Settings by methods by variants, in the order of the file."""
        for (s, setting), (m, entry) in itertools.product(enumerate(self.settings), enumerate(self.methods)):
            if not setting.runs(entry):
                continue
            for variant, constants in entry.configs().items():
                yield RunGroup(
                    method=entry.name,
                    variant=variant,
                    constants=constants,
                    dataset=setting.dataset,
                    memories=tuple(dict.fromkeys(setting.memory)),
                    seeds=tuple(self._seeds(setting)),
                    protocol=self.protocol | setting.protocol,
                    resources=entry.resources.over(setting.resources.over(self.resources.over(RESOURCES))),
                    at=(s, m),
                )


@dataclass(frozen=True)
class RunGroup:
    """One variant of a method in one setting: runs that differ in memory and seed."""

    method: str
    variant: str
    constants: dict[str, Any]
    dataset: str
    memories: tuple[int, ...]
    seeds: tuple[int, ...]
    protocol: dict[str, Any]
    resources: Resources
    at: tuple[int, int]  #: numbers of its setting and of its method in the file
