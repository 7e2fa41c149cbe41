"""What a method says of itself, for tables and figures; known without importing the method, which would bring torch."""

from __future__ import annotations

import ast
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any, Literal

Role = Literal["bound", "baseline", "ours"]


@dataclass(frozen=True)
class Facts:
    """Class attributes of a `Method`, a user's own included; they are stored with every run."""

    title: str = ""  #: as a table prints it
    cite: str = ""  #: key of its paper
    bibtex: str = ""  #: the entry of that key, where `reference/references.bib` does not have it
    place: int | None = None  #: row of the EMI paper's tables, from 0; None for a method that the paper does not have
    role: Role = "baseline"  #: `bound`: above the rule, never bold. `ours`: last, unless the report is told otherwise
    colour: str = ""  #: of its curves, the same in every figure; chosen by its name where empty
    marker: str = ""
    line: str = "-"
    uses_memory: bool = True  #: False: one run a data set and seed serves every memory column
    joint: bool = False  #: learns all tasks together: no curve, no matrix, batches of its own


def facts_of(cls: Any) -> Facts:
    """The facts of a method's class. A class that builds on another one has its own title, citation and colour."""
    own = {f.name: vars(cls)[f.name] for f in fields(Facts) if f.name in vars(cls)}
    return Facts(**({"title": cls.name, "uses_memory": cls.uses_memory, "joint": cls.joint} | own))


@cache
def built_in_facts() -> dict[str, Facts]:
    """Facts of the methods of this package by name, in the paper's order, others after them; read from their source.

    >>> facts = built_in_facts()
    >>> list(facts)[:4], facts["er"].title, facts["finetune"].uses_memory
    (['finetune', 'offline', 'agem', 'er'], 'ER', False)
    """
    known = {f.name for f in fields(Facts)} | {"name"}
    found: dict[str, Facts] = {}
    for file in (files("emi_bench") / "methods").iterdir():
        if not file.name.endswith(".py"):
            continue
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            stated = _stated(node, known) if isinstance(node, ast.ClassDef) else {}
            if name := stated.pop("name", None):
                found[name] = Facts(**stated)
    return dict(sorted(found.items(), key=lambda item: order(item[1].place, item[0])))


def _stated(node: ast.ClassDef, names: set[str]) -> dict[str, Any]:
    """The class attributes of these names that are given as plain values."""
    return {
        target.id: ast.literal_eval(line.value)
        for line in node.body
        if isinstance(line, ast.Assign)
        for target in line.targets
        if isinstance(target, ast.Name) and target.id in names
    }


def order(place: int | None, name: str) -> tuple[bool, int, str]:
    """A key to sort methods by: the paper's rows first, then the others by name."""
    return (place is None, place or 0, name)
