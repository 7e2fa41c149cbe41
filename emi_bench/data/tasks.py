"""Tasks that a user spells out: groups of classes by name or number, of any sizes, in the order of the stream."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from emi_bench.data.info import DataInfo
from emi_bench.errors import UserError
from emi_bench.registry import did_you_mean

Class: TypeAlias = str | int  #: its name, or its number in the data set
Groups: TypeAlias = Sequence[Sequence[Class]]


def class_number(info: DataInfo, asked: Class) -> int:
    """The number of a class.

    >>> from emi_bench.data.info import CIFAR10
    >>> class_number(CIFAR10, "cat"), class_number(CIFAR10, 3)
    (3, 3)
    """
    if isinstance(asked, int):
        if 0 <= asked < info.n_classes:
            return asked
        raise UserError(f"{info.name} has no class {asked}", hint=f"its classes are 0 to {info.n_classes - 1}")
    if not info.class_names:
        raise UserError(
            f"the class names of {info.name} are not known before it is loaded",
            hint=f"say '{asked}' by its number, 0 to {info.n_classes - 1}",
        )
    found = [number for number, name in enumerate(info.class_names) if name == asked]
    if not found:
        raise UserError(f"{info.name} has no class '{asked}'", hint=did_you_mean(asked, info.class_names))
    if len(found) > 1:
        raise UserError(
            f"{len(found)} classes of {info.name} are called '{asked}'",
            hint=f"say which by number: {', '.join(map(str, found))}",
        )
    return found[0]


def checked_groups(info: DataInfo, groups: Groups) -> list[list[Class]]:
    """The groups in one form, so that one split has one id: by name where all names differ, else by number.

    Within a group classes stand in the order of their numbers.
    """
    numbers = [sorted(class_number(info, c) for c in group) for group in groups]
    flat = [c for group in numbers for c in group]
    twice = sorted({c for c in flat if flat.count(c) > 1})
    if twice:
        raise UserError(f"class {_said(info, twice)} is in two places of the tasks", hint="name every class once")
    if len(flat) < 2:
        raise UserError("the tasks have one class in all", hint="a class-incremental stream needs two or more")
    named = len(set(info.class_names)) == info.n_classes
    return [[info.class_names[c] if named else c for c in group] for group in numbers]


def numbered(groups: Groups, class_names: Sequence[str]) -> list[list[int]]:
    """Groups in the form of `checked_groups` by the labels of the data, which has no other classes than theirs.

    >>> numbered([["dog", "cat"], ["car"]], ["car", "cat", "dog"]), numbered([[7, 2], [5]], ["x", "x", "x"])
    ([[2, 1], [0]], [[2, 0], [1]])
    """
    flat: list[Class] = [c for group in groups for c in group]
    order: Iterable[Class] = class_names if isinstance(flat[0], str) else sorted(flat, key=int)
    label = {c: i for i, c in enumerate(order)}
    return [[label[c] for c in group] for group in groups]


def _said(info: DataInfo, classes: list[int]) -> str:
    return ", ".join(info.class_names[c] if info.class_names else str(c) for c in classes)
