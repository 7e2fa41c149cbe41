"""Names to data sets: built-in ones, those of installed packages, those a plugin registers, and a user's own files."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from emi_bench.data import digits, tinyimagenet
from emi_bench.data.archives import Remote
from emi_bench.data.cifar import CIFAR10, CIFAR100
from emi_bench.data.dataset import DataSet
from emi_bench.data.info import DIGITS, TINYIMAGENET, DataInfo
from emi_bench.data.own import KINDS, OWN_FORMS, get_own_info, is_own
from emi_bench.data.places import data_root
from emi_bench.errors import UserError
from emi_bench.registry import unknown


@dataclass(frozen=True)
class Source:
    """How a named data set is found and loaded, given the data root."""

    info: DataInfo
    load: Callable[[Path, bool], DataSet]  #: the flag allows decoded images from the cache
    find: Callable[[Path], str | None]  #: where it is, None if it is not there
    remote: Remote | None = None  #: what can be downloaded


BUILT_IN = {
    "digits": Source(DIGITS, digits.load, digits.find),
    "cifar10": Source(CIFAR10.info, CIFAR10.load, CIFAR10.find, CIFAR10.remote),
    "cifar100": Source(CIFAR100.info, CIFAR100.load, CIFAR100.find, CIFAR100.remote),
    "tinyimagenet": Source(TINYIMAGENET, tinyimagenet.load, tinyimagenet.find, tinyimagenet.REMOTE),
}
_registered: dict[str, Source] = {}


def register(info: DataInfo, loader: Callable[[Path], DataSet]) -> None:
    """Add a data set: what is known of it, and a function from the data root to its `DataSet`.

    A plugin file calls this when it is imported. An installed package names, in the entry point group
    `emi_bench.datasets`, a function without arguments that calls it.
    """
    if info.name in BUILT_IN or not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", info.name):
        raise UserError(
            f"a data set cannot be registered as '{info.name}'",
            hint=f"Use lower-case letters, digits, '_', '.', '-', and none of {', '.join(BUILT_IN)}.",
        )
    _registered[info.name] = Source(info, lambda root, cached: loader(root), lambda root: "plugin")


@cache
def _load_entry_points() -> None:
    for entry in entry_points(group="emi_bench.datasets"):
        try:
            entry.load()()
        except Exception as e:
            raise UserError(
                f"the data set '{entry.name}' of the installed package {entry.dist.name if entry.dist else '?'} "
                f"does not load: {type(e).__name__}: {e}",
                hint="Update or uninstall that package.",
            ) from e


def dataset_names() -> list[str]:
    """All names, the built-in ones first.

    >>> dataset_names()[:4]
    ['digits', 'cifar10', 'cifar100', 'tinyimagenet']
    """
    _load_entry_points()
    return [*BUILT_IN, *sorted(_registered)]


def get_source(name: str) -> Source:
    """The source of a named data set; an unknown name answers with the list."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name not in _registered:
        _load_entry_points()
    if name not in _registered:
        for prefix, kind in KINDS.items():
            if name and kind.takes(Path(name).expanduser()):
                raise UserError(
                    f"unknown data set '{name}'", hint=f"Did you mean {prefix}:{name}? It would be {kind.what}."
                )
        raise unknown("data set", name, [*dataset_names(), *OWN_FORMS])
    return _registered[name]


def get_info(name: str, root: Path | None = None) -> DataInfo:
    """What is known of a data set. Cheap: named ones are constants, a user's own is read at most once a process.

    >>> info = get_info("cifar100")
    >>> info.n_classes, info.n_tasks, info.image_size
    (100, 10, 32)
    """
    return get_own_info(name, data_root(root)) if is_own(name) else get_source(name).info
