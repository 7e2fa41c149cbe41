"""What the grammar of sweep files cannot know: plugins, and the names of methods, data sets, constants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from emi_bench.data import get_info
from emi_bench.errors import UserError
from emi_bench.methods import get_method, load_plugin
from emi_bench.registry import did_you_mean
from emi_bench.run.spec import Protocol
from emi_bench.sweep.grammar import Sweep, YamlSource, placed, read_grammar


def read_sweep(path: str | Path, root: Path | None = None) -> tuple[Sweep, YamlSource]:
    """The sweep of a file, its plugins loaded and its names looked up."""
    sweep, source = read_grammar(path)
    for plugin in sweep.plugin_paths(source.path):
        load_plugin(plugin)
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
    return sweep, source


def _check_keys(
    given: dict[str, Any], model: type[BaseModel], source: YamlSource, at: list[str | int], what: str
) -> None:
    for key in given:
        if key not in model.model_fields:
            raise UserError(
                f"{source.where([*at, key])}: {what} has no key '{key}'", did_you_mean(key, model.model_fields)
            )
