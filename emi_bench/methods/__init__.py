"""Finds methods: the files of this folder, installed entry points, and plugins a user names."""

from __future__ import annotations

import importlib
import importlib.util
import linecache
import pkgutil
import sys
import warnings
from collections.abc import Mapping
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from emi_bench.errors import UserError, line_in
from emi_bench.facts import facts_of, order
from emi_bench.methods.base import Losses, Method, MethodConfig, View
from emi_bench.registry import unknown

__all__ = ["Losses", "Method", "MethodConfig", "View", "get_method", "load_plugin", "method_names", "plugin_file"]

_NOT_METHODS = {"base"}
_PLUGIN = "emi_bench_plugin_"
_plugins: dict[str, type[Method]] = {}


def _methods_of(module: ModuleType) -> dict[str, type[Method]]:
    found = {}
    for value in vars(module).values():
        own = isinstance(value, type) and value.__module__ == module.__name__
        if own and issubclass(value, Method) and "name" in vars(value):
            found[value.name] = value
    return found


@cache
def _built_in() -> dict[str, type[Method]]:
    found: dict[str, type[Method]] = {}
    for info in pkgutil.iter_modules(__path__):
        if info.name not in _NOT_METHODS:
            found |= _methods_of(importlib.import_module(f"{__name__}.{info.name}"))
    for entry in entry_points(group="emi_bench.methods"):
        try:
            found[entry.name] = _installed(entry, found)
        except Exception as e:  # one broken package must not stop every command
            told = e.message if isinstance(e, UserError) else f"does not load: {type(e).__name__}: {e}"
            package = entry.dist.name if entry.dist else "?"
            warnings.warn(
                f"the method '{entry.name}' of the installed package {package} is left out: it {told}. "
                "Update or uninstall that package.",
                stacklevel=2,
            )
    return found


def _installed(entry: EntryPoint, known: Mapping[str, type[Method]]) -> type[Method]:
    """The method of an entry point; what cannot be one is refused."""
    if entry.name in known:
        raise UserError(f"cannot have that name: {entry.name} is a method of emi-bench or of another package")
    found = entry.load()
    if not isinstance(found, type) or not issubclass(found, Method):
        raise UserError(f"is not a Method but {found!r}")
    if getattr(found, "name", None) != entry.name:
        raise UserError(f"calls itself '{getattr(found, 'name', '')}'")
    return found


class _Given(SourceFileLoader):
    """A file by its content alone: no compiled file is looked for, which an edit within a second would not outdate."""

    def __init__(self, name: str, path: str, content: bytes) -> None:
        super().__init__(name, path)
        self.content = content

    def get_data(self, path: str | bytes) -> bytes:
        return self.content

    def path_stats(self, path: str | bytes) -> Mapping[str, int]:
        raise OSError("nothing but its content is asked for")


def load_plugin(path: str | Path, content: bytes | None = None) -> list[str]:
    """Register the methods (and data sets) that a user's Python file defines; returns the names of its methods.

    With `content` the file itself is not looked at: a worker is sent it by a machine that has it.
    """
    file = Path(path).expanduser().resolve()
    if content is None and not file.is_file():
        raise UserError(f"no plugin file at {file}", hint="--plugin takes the path of a Python file")
    module_name = f"{_PLUGIN}{file.stem}"
    given = _Given(module_name, str(file), file.read_bytes() if content is None else content)
    spec = importlib.util.spec_from_file_location(module_name, file, loader=given)
    if spec is None or spec.loader is None or file.suffix != ".py":
        raise UserError(f"{file} is not a Python file", hint="--plugin takes the path of a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    if content is not None:  # what a traceback shows
        lines = content.decode(errors="replace").splitlines(keepends=True)
        linecache.cache[str(file)] = (len(content), None, lines, str(file))
    try:
        spec.loader.exec_module(module)
    except Exception as e:
        line = line_in(file, e)
        where = f"{file}:{line}" if line else str(file)
        raise UserError(f"the plugin {where} does not import: {type(e).__name__}: {e}") from e
    found = _methods_of(module)
    _plugins.update(found)
    return sorted(found)


def plugin_file(cls: type) -> str | None:
    """The file a plugin's method or backbone came from; None for an installed one."""
    module = sys.modules[cls.__module__]
    return module.__file__ if module.__name__.startswith(_PLUGIN) else None


def _all() -> dict[str, type[Method]]:
    return _built_in() | _plugins


def method_names() -> list[str]:
    """All methods, in the order of the paper, others after them by name."""
    return [name for name, cls in sorted(_all().items(), key=lambda m: order(facts_of(m[1]).place, m[0]))]


def get_method(name: str) -> type[Method]:
    """The class of a method; an unknown name answers with the list.

    >>> get_method("er").title
    'ER'
    """
    methods = _all()
    if name not in methods:
        error = unknown("method", name, methods)
        own = f"{name}.py" if Path(f"{name}.py").is_file() else "FILE.py"
        raise UserError(error.message, hint=f"{error.hint} A method of your own comes with --plugin {own}.")
    return methods[name]
