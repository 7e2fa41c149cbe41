"""The documentation site: every page is in its navigation, and it builds without a complaint."""

from __future__ import annotations

import html
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
BUILDS = all(importlib.util.find_spec(name) for name in ("material", "mkdocstrings", "latex2mathml"))


def listed(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    return [page for part in (entry.values() if isinstance(entry, dict) else entry) for page in listed(part)]


def test_every_page_is_in_the_navigation() -> None:
    pages = {f.relative_to(ROOT / "docs").as_posix() for f in (ROOT / "docs").rglob("*.md")}
    nav = listed(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"])
    assert len(nav) == len(set(nav))
    assert set(nav) == pages


@pytest.mark.skipif(not BUILDS, reason="the extra `docs` is not installed: see `make docs`")
def test_it_builds_strictly_with_formulas_and_the_demo_and_fetches_nothing(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for source in (ROOT / "docs" / "methods").glob("*.md"):
        page = (tmp_path / "methods" / f"{source.stem}.html").read_text("utf-8")
        formulas = re.findall(r"<math.*?</math>", page, re.DOTALL)
        assert len(formulas) == source.read_text("utf-8").count("$") / 2 > 0, source.name
        unknown = [f for f in formulas if "\\" in html.unescape(f)]  # a command that the converter does not know
        assert not unknown, source.name
    assert (tmp_path / "demo" / "index.html").is_file()
    api = (tmp_path / "api.html").read_text("utf-8")
    assert "emi_bench.api.run" in api
    assert "<blockquote>" not in api  # examples of docstrings are code
    page = (tmp_path / "index.html").read_text("utf-8")
    for tag in ('src="http', 'rel="stylesheet" href="http'):
        assert tag not in page
