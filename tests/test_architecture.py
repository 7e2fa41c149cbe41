"""Imports point one way, files stay short, names say something."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "emi_bench"

#: What a layer may not know of. A layer is a module or a folder of the package.
FORBIDDEN = {
    "data": {"methods", "run", "spec", "store", "sweep", "report", "cli", "nets", "losses"},
    "nets": {"methods", "run", "spec", "store", "sweep", "report", "cli"},
    "memory": {"methods", "run", "spec", "store", "sweep", "report", "cli"},
    "losses": {"methods", "run", "spec", "store", "sweep", "report", "cli"},
    "metrics": {"methods", "run", "spec", "store", "sweep", "report", "cli", "data"},
    "methods": {"run", "spec", "store", "sweep", "report", "cli"},
    "run": {"store", "sweep", "report", "cli"},
    "store": {"sweep", "report", "cli"},
    "sweep": {"report", "cli"},
    "options": {"run", "spec", "store", "sweep", "report", "cli"},
    "terminal": {"methods", "run", "spec", "store", "sweep", "report", "cli"},
    "report": {"sweep", "cli", "run", "data", "nets", "losses", "memory"},
}


def files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imports(file: Path) -> set[str]:
    """Full names of everything a file imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("file", files(), ids=lambda f: str(f.relative_to(PACKAGE)))
def test_imports_point_one_way(file: Path) -> None:
    layer = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    for name in imports(file):
        parts = name.split(".")
        if parts[0] == "emi_bench" and len(parts) > 1:
            assert parts[1] not in FORBIDDEN.get(layer, set()), f"{file.name} imports {name}"
        if layer != "sweep":
            assert parts[0] != "ray", f"{file.name} imports ray, which only the sweep may"


@pytest.mark.parametrize("file", files(), ids=lambda f: str(f.relative_to(PACKAGE)))
def test_a_file_can_be_read_in_one_go(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= 400
    assert file.stem not in {"utils", "util", "helpers", "helper", "common", "misc"}
