"""The methods as a table: names, constants, what they say of themselves."""

from __future__ import annotations

import inspect
from typing import Any

from emi_bench.methods import get_method, method_names


def describe_methods(name: str = "") -> list[dict[str, Any]]:
    """One object a method, or for one of them: name, title, whether it has a memory, and each constant with default and
    meaning."""
    return [_describe(n) for n in ([name] if name else method_names())]


def constants_of(method: dict[str, Any]) -> list[dict[str, Any]]:
    """A row a constant."""
    return [{"constant": key, **told} for key, told in method["constants"].items()]


def _describe(name: str) -> dict[str, Any]:
    cls = get_method(name)
    config = cls.config_class()
    module = inspect.getdoc(inspect.getmodule(cls)) or ""
    first = module.partition("\n")[0]
    about = first.partition(": ")[2] or first
    default = config.model_dump(mode="json")
    constants = {
        key: {"default": default[key], "about": " ".join((field.description or "").split())}
        for key, field in cls.config_class.model_fields.items()
    }
    return {
        "name": name,
        "title": cls.title,
        "version": cls.version,
        "memory": "yes" if cls.uses_memory else "no",
        "optimizer": f"{config.optimizer} {config.lr:g}",
        "about": about,
        "constants": constants,
    }
