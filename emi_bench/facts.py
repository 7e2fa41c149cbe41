"""What a method says of itself, for tables and figures; known without importing the method, which would bring torch."""

from __future__ import annotations

import ast
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any, Literal

#: Constants that version 0.1.0 left out of ids; its files do not say so.
LEFT_OUT_0_1_0 = frozenset({"checkpoint_joint"})
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
    found: dict[str, Facts] = {}
    for file in (files("emi_bench") / "methods").iterdir():
        if file.name.endswith(".py"):
            found |= {name: Facts(**stated) for name, stated in methods_in(file.read_text(encoding="utf-8")).items()}
    return dict(sorted(found.items(), key=lambda item: order(item[1].place, item[0])))


def methods_in(source: str) -> dict[str, dict[str, Any]]:
    """The named classes of a file, each with the facts that it gives as plain values.

    >>> methods_in("class Mine(Method):\\n    name: ClassVar = 'mine'\\n    title = 'Mine'\\n    place = 2 + 2")
    {'mine': {'title': 'Mine'}}
    """
    known = {f.name for f in fields(Facts)} | {"name"}
    found: dict[str, dict[str, Any]] = {}
    for node in ast.parse(source).body:
        stated = {
            target.id: line.value.value
            for line in (node.body if isinstance(node, ast.ClassDef) else ())
            if isinstance(line, ast.Assign | ast.AnnAssign) and isinstance(line.value, ast.Constant)
            for target in (line.targets if isinstance(line, ast.Assign) else [line.target])
            if isinstance(target, ast.Name) and target.id in known
        }
        if name := stated.pop("name", None):
            found[str(name)] = stated
    return found


def order(place: int | None, name: str) -> tuple[bool, int, str]:
    """A key to sort methods by: the paper's rows first, then the others by name."""
    return (place is None, place or 0, name)
