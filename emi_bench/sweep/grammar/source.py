"""A YAML file as plain data, with the line of every key, so that an error can say where."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from emi_bench.errors import UserError
from emi_bench.sweep.grammar.shipped import shipped

Path_ = Sequence[str | int]


class _UniqueKeys(yaml.SafeLoader):
    """YAML lets the second of two equal keys win in silence; a sweep with half its methods lost is no fun."""


def _mapping(loader: _UniqueKeys, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if isinstance(key, (list, dict)):
            raise yaml.constructor.ConstructorError(None, None, "a key must be a word or a number", key_node.start_mark)
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key '{key}' stands here twice", key_node.start_mark
            )
        seen.add(key)
    return yaml.SafeLoader.construct_mapping(loader, node, deep=True)


_UniqueKeys.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


class YamlSource:
    """The content of a file, and where in it a path of keys stands."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise UserError(f"no sweep file at {path}", hint=_others(path)) from None
        except (OSError, UnicodeDecodeError) as e:
            raise UserError(f"cannot read {path}: {e}", hint="a sweep file is a YAML text") from e
        try:
            self.content: Any = yaml.load(text, Loader=_UniqueKeys)
            self._node = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.YAMLError as e:
            mark = getattr(e, "problem_mark", None)
            where = f"{path}:{mark.line + 1}" if mark else str(path)
            problem = getattr(e, "problem", None) or "not YAML"
            raise UserError(f"{where}: {problem}", hint="see `emi-bench sweep --help` for a file that works") from e

    def where(self, keys: Path_) -> str:
        """`file:line: methods[2].config`"""
        told = ""
        for key in keys:
            told += f"[{key}]" if isinstance(key, int) else f".{key}" if told else str(key)
        return f"{self.path}:{self._line(keys)}: {told}" if told else f"{self.path}"

    def _line(self, keys: Path_) -> int:
        node, line = self._node, 1
        for key in keys:
            if isinstance(node, yaml.MappingNode):
                found = next(((k, v) for k, v in node.value if k.value == str(key)), None)
                if found is None:
                    break
                line, node = found[0].start_mark.line + 1, found[1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
                node = node.value[key]
                line = node.start_mark.line + 1
            else:
                break
        return line


def _others(path: Path) -> str:
    near = sorted(str(p) for p in path.parent.glob("*.y*ml")) if path.parent.is_dir() else []
    here = f"there are {', '.join(near)}; " if near else ""
    return f"{here}by name you have {', '.join(shipped())}: see `emi-bench sweeps`"
