"""Imports point one way, files stay short, names say something."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "emi_bench"

#: From the ground up. A module may import from lower rows and from its own entry; entries of a row do not know of each
#: other. An entry is a module or a folder, the longest that fits counts. Every module has its place.
LAYERS = [
    ["anytime", "errors", "facts", "metrics", "problem", "seeds", "terminal"],
    ["registry", "reference", "draws"],
    ["data"],
    ["memory", "losses"],
    ["nets"],
    ["methods"],
    ["run.spec"],
    ["run"],
    ["store"],
    ["run.execute"],
    ["sweep.grammar"],
    ["sweep", "report"],
    ["testing"],
    ["cli", "api"],
    ["__init__"],
]
#: Who may know of a package.
ONLY = {"ray": "sweep.executors.ray", "matplotlib": "report", "typer": "cli"}


def modules() -> dict[str, Path]:
    """Dotted name below the package -> file; a folder goes by its own name."""
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = list(file.relative_to(PACKAGE).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)] = file
    return found


MODULES = modules()


@cache
def imports(file: Path) -> set[str]:
    """Full names of everything a file imports, also inside functions, for a type checker, or by `import_module`."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found |= {a.value for a in node.args[:1] if isinstance(a, ast.Constant)}
    return found


def own(file: Path) -> set[str]:
    """The modules of this package that a file imports; the root for what is defined in it."""
    found = set()
    for name in imports(file):
        parts = name.split(".")
        if parts[0] == "emi_bench":
            names = [".".join(parts[1:n]) for n in range(len(parts), 1, -1)]
            found.add(next((n for n in names if n in MODULES), "__init__"))
    return found


def place(module: str) -> tuple[int, str]:
    """Row and entry of a module."""
    fitting = [(len(e), row, e) for row, es in enumerate(LAYERS) for e in es if f"{module}.".startswith(f"{e}.")]
    assert fitting, f"{module} has no layer: give it one"
    return max(fitting)[1:]


def test_every_import_points_down() -> None:
    wrong = []
    for module, file in MODULES.items():
        row, entry = place(module)
        for other in own(file) - {module}:
            below, whose = place(other)
            if not (below < row or whose == entry):
                wrong.append(f"{module} imports {other}, which is not below it")
        for name in imports(file):
            owner = ONLY.get(name.partition(".")[0])
            if owner is not None and not f"{module}.".startswith(f"{owner}."):
                wrong.append(f"{module} imports {name}: only {owner} may")
    assert wrong == []


def test_nothing_imports_itself_in_a_circle() -> None:
    graph = {m: own(f) - {m} for m, f in MODULES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as e:
        pytest.fail(" -> ".join(e.args[1]))


def test_every_file_can_be_read_in_one_go() -> None:
    lengths = {module: len(file.read_text().splitlines()) for module, file in MODULES.items()}
    assert {module: n for module, n in lengths.items() if n > 300} == {}
    vague = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert [module for module, file in MODULES.items() if file.stem in vague] == []
