"""A file -> a sweep. Every error names the file, the line, the key and a way out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from emi_bench.errors import UserError
from emi_bench.registry import described, did_you_mean
from emi_bench.sweep.grammar.model import MethodEntry, ReportEntry, Resources, SettingEntry, Sweep
from emi_bench.sweep.grammar.source import YamlSource


def read_grammar(path: str | Path) -> tuple[Sweep, YamlSource]:
    """The sweep of a file, as far as the grammar goes: names of methods, data sets and constants are not looked up."""
    source = YamlSource(Path(path))
    if not isinstance(source.content, dict):
        raise UserError(f"{path} is not a mapping", hint="it needs name, methods, settings, seeds")
    try:
        sweep = Sweep(**source.content)
    except ValidationError as e:
        raise _explained(e, source) from e
    except TypeError as e:
        raise UserError(f"{path}: {e}", hint="keys are words") from e
    names = [entry.name for entry in sweep.methods]
    for s, setting in enumerate(sweep.settings):
        for i, name in enumerate(setting.methods or ()):
            if name not in names:
                where = source.where(["settings", s, "methods", i])
                raise UserError(f"{where}: '{name}' is not among this sweep's methods", did_you_mean(name, names))
    return sweep, source


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
    got = f" (got {repr(first['input'])[:80]})" if key else ""
    return UserError(f"{where}: {told}{got}", described(model, key))


#: Names that pydantic puts into a location for the branches of a union.
_TAGS = {"float", "literal['auto']", "function-before[_as_entry(), MethodEntry]"}
_MODELS: dict[str, type[BaseModel]] = {
    "methods": MethodEntry,
    "settings": SettingEntry,
    "resources": Resources,
    "report": ReportEntry,
}


def _model_at(loc: list[Any]) -> type[BaseModel]:
    named = [_MODELS[part] for part in loc if part in _MODELS]
    return named[-1] if named else Sweep
