"""What a sweep file may say. Everything is checked before anything starts."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from emi_bench.data import get_info
from emi_bench.errors import UserError
from emi_bench.methods import get_method, load_plugin
from emi_bench.registry import did_you_mean
from emi_bench.run.spec import Protocol, described
from emi_bench.sweep.source import YamlSource

DEFAULT_VARIANT = "default"


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


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

    def configs(self) -> dict[str, dict[str, Any]]:
        """All variants by name; the default's name is empty."""
        named = {"" if k == DEFAULT_VARIANT else k: v for k, v in self.variants.items()}
        for values in itertools.product(*self.grid.values()) if self.grid else ():
            point = dict(zip(self.grid, values, strict=True))
            named[",".join(f"{k}={v}" for k, v in point.items())] = point
        return {name: self.config | values for name, values in (named or {"": {}}).items()}


class Setting(_Strict):
    """A data set and the memory sizes to run it with."""

    dataset: str
    memory: Annotated[list[Annotated[int, Field(ge=0)]], BeforeValidator(lambda v: v if isinstance(v, list) else [v])]
    """One size or a list; methods without a memory run once, whatever stands here."""
    protocol: dict[str, Any] = Field(default_factory=dict)
    """Protocol of this setting, over the sweep's."""
    resources: Resources = Resources()


class ReportEntry(_Strict):
    """What `emi-bench report FILE` makes of the results."""

    tables: list[int] = Field(default_factory=list)
    """The paper's tables I-VI, by number."""
    figures: list[Literal["incremental", "kde", "tsne"]] = Field(default_factory=list)
    """`incremental`: accuracy after each task. `kde`, `tsne`: features of runs with `features: true`."""


def _as_entry(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


def _as_seeds(value: Any) -> Any:
    return list(range(value)) if isinstance(value, int) and not isinstance(value, bool) else value


class Sweep(_Strict):
    """A sweep file."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    """Letters, digits, '.', '-', '_'."""
    title: str = ""
    methods: list[Annotated[MethodEntry, BeforeValidator(_as_entry)]] = Field(min_length=1)
    """Names, or mappings with name, config, variants, grid, resources."""
    settings: list[Setting] = Field(min_length=1)
    """Data sets with their memory sizes."""
    seeds: Annotated[list[Annotated[int, Field(ge=0)]], BeforeValidator(_as_seeds)] = Field(min_length=1)
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


def read_sweep(path: str | Path, root: Path | None = None) -> tuple[Sweep, YamlSource]:
    """The sweep of a file; every error names the file, the line, the key and a way out. Loads its plugins."""
    source = YamlSource(Path(path))
    if not isinstance(source.content, dict):
        raise UserError(f"{path} is not a mapping", hint="it needs name, methods, settings, seeds")
    try:
        sweep = Sweep(**source.content)
    except ValidationError as e:
        raise _explained(e, source) from e
    except TypeError as e:
        raise UserError(f"{path}: {e}", hint="keys are words") from e
    for plugin in sweep.plugin_paths(source.path):
        load_plugin(plugin)
    _check_names(sweep, source, root)
    return sweep, source


def _check_names(sweep: Sweep, source: YamlSource, root: Path | None) -> None:
    """Names, constants and protocol keys that pydantic cannot know."""
    _check_keys(sweep.protocol, Protocol, source, ["protocol"], "protocol")
    for i, entry in enumerate(sweep.methods):
        at: list[str | int] = ["methods", i]
        at += [] if isinstance(source.content["methods"][i], str) else ["name"]
        with placed(source, at):
            cls = get_method(entry.name)
        what = f"config of {entry.name}"
        _check_keys(entry.config, cls.config_class, source, ["methods", i, "config"], what)
        _check_keys(entry.grid, cls.config_class, source, ["methods", i, "grid"], what)
        for name, config in entry.variants.items():
            _check_keys(config, cls.config_class, source, ["methods", i, "variants", name], what)
    for i, setting in enumerate(sweep.settings):
        with placed(source, ["settings", i, "dataset"]):
            get_info(setting.dataset, root)
        _check_keys(setting.protocol, Protocol, source, ["settings", i, "protocol"], "protocol")
        if not setting.memory:
            raise UserError(
                f"{source.where(['settings', i, 'memory'])} is empty", hint="give one size or a list of sizes"
            )


def _check_keys(
    given: dict[str, Any], model: type[BaseModel], source: YamlSource, at: list[str | int], what: str
) -> None:
    for key in given:
        if key not in model.model_fields:
            raise UserError(
                f"{source.where([*at, key])}: {what} has no key '{key}'", did_you_mean(key, model.model_fields)
            )


class placed:
    """Errors from inside get the file and the key in front."""

    def __init__(self, source: YamlSource, at: list[str | int]) -> None:
        self.source, self.at = source, at

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, UserError):
            raise UserError(f"{self.source.where(self.at)}: {error.message}", error.hint) from error


def _explained(error: ValidationError, source: YamlSource) -> UserError:
    """The first problem, in the words of the file."""
    # A misspelt key is also a missing one; the misspelling is what helps.
    first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    loc = [part for part in first["loc"] if isinstance(part, int) or part not in _TAGS]
    where, key = source.where(loc), next((part for part in reversed(loc) if isinstance(part, str)), "")
    model = _model_at(loc[: loc.index(key)] if key else [])
    if first["type"] == "extra_forbidden":
        return UserError(f"{where}: unknown key '{key}'", did_you_mean(key, model.model_fields))
    if first["type"] == "missing":
        return UserError(
            f"{where} is missing", described(model, key) or "a sweep needs name, methods, settings and seeds"
        )
    if first["type"] == "too_short":
        hints = (described(model, part) for part in reversed(loc) if isinstance(part, str))
        return UserError(f"{where} is empty: there would be nothing to run", next(filter(None, hints), ""))
    told = first["msg"].removeprefix("Value error, ")
    return UserError(f"{where}: {told} (got {first['input']!r})", described(model, key))


#: Names that pydantic puts into a location for the branches of a union.
_TAGS = {"float", "literal['auto']", "function-before[_as_entry(), MethodEntry]"}
_MODELS: dict[str, type[BaseModel]] = {
    "methods": MethodEntry,
    "settings": Setting,
    "resources": Resources,
    "report": ReportEntry,
}


def _model_at(loc: list[Any]) -> type[BaseModel]:
    named = [_MODELS[part] for part in loc if part in _MODELS]
    return named[-1] if named else Sweep
