"""What pages say of the source tree is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from emi_bench import load_runs, reference
from emi_bench.facts import built_in_facts
from emi_bench.methods import MethodConfig, get_method

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])


def paths(page: Path) -> set[str]:
    """Paths of the repository in backticks, without a line number or a call behind them."""
    found = re.findall(r"`((?:emi_bench|tests|docs|sweeps|benchmarks|examples|deploy)/[\w./-]*)`", page.read_text())
    return set(found)


def test_the_architecture_page_names_many_paths() -> None:
    assert len(paths(ROOT / "docs" / "architecture.md")) > 40


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_paths_on_a_page_are_there(page: Path) -> None:
    assert [p for p in sorted(paths(page)) if not (ROOT / p).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("name", built_in_facts())
def test_every_constant_of_a_method_is_on_its_page(name: str) -> None:
    written = (ROOT / "docs" / "methods" / f"{name}.md").read_text("utf-8")
    words = {word for quoted in re.findall(r"`([^`]+)`", written) for word in re.findall(r"\w+", quoted)}
    config = get_method(name).config_class
    own = config.__annotations__.keys() & config.model_fields.keys() - MethodConfig.model_fields.keys()
    assert sorted(own - words) == []


def test_every_folder_of_the_package_is_on_the_architecture_page() -> None:
    named = (ROOT / "docs" / "architecture.md").read_text()
    folders = [f.name for f in (ROOT / "emi_bench").iterdir() if (f / "__init__.py").exists()]
    assert [f for f in folders if f"`emi_bench/{f}/`" not in named] == []


def proxy_rows() -> list[str]:
    """The committed proxy beside the paper's columns at M = 1,000, as the README prints it."""
    runs = load_runs(ROOT / "results" / "proxy")
    runs = runs[runs["variant"] == ""]
    lines = []
    for method in (m for m, facts in built_in_facts().items() if facts.place is not None):
        cells = [built_in_facts()[method].title]
        for dataset, metric in (
            ("cifar10", "average_accuracy"),
            ("cifar10", "forgetting"),
            ("cifar100", "average_accuracy"),
        ):
            ours = 100 * runs[(runs["dataset"] == dataset) & (runs["method"] == method)][metric].dropna()
            paper = reference.values(metric, reference.PAPER).query(
                "method == @method and dataset == @dataset and memory == 1000"
            )["mean"]
            known = len(ours) and not (metric == "forgetting" and paper.empty)
            cells += [f"{ours.mean():.1f} ± {ours.std():.1f}" if known else ""]
            cells += [f"{value:.1f}" for value in paper] or [""]
        lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |"))
    return lines


def test_the_readmes_table_of_the_proxy_is_what_the_store_holds() -> None:
    text = (ROOT / "README.md").read_text()
    assert [line for line in proxy_rows() if line not in text] == []


@pytest.mark.parametrize(("name", "columns"), [("proxy", 30), ("proxy8", 25)])
def test_a_proxys_tables_are_what_its_store_holds(name: str, columns: int) -> None:
    text = (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    runs = load_runs(ROOT / "results" / name).sort_values("seed")
    assert set(runs["protocol"].map(lambda p: p["image_size"])) == {8 if name == "proxy8" else 16}
    ablated = runs[(runs["dataset"] == "cifar10") & runs["method"].isin(["ocm", "emi"]) & (runs["seed"] < 3)]
    for rows, by, n in ((runs[runs["variant"] == ""], "dataset", columns), (ablated, "variant", 7)):
        cells = [100 * a for _, a in rows.groupby(["method", by])["average_accuracy"]]
        told = [f"| {a.mean():.1f} ± {a.std():.1f} | {' '.join(f'{x:.1f}' for x in a)} |" for a in cells]
        assert [line for line in told if line not in text] == []
        assert len(told) == n


def test_the_readmes_table_at_full_size_is_what_the_store_holds() -> None:
    text = (ROOT / "README.md").read_text()
    cells = load_runs(ROOT / "results" / "paper").groupby(["method", "dataset", "memory"])["average_accuracy"]
    for (method, dataset, memory), found in cells:
        where = f"{built_in_facts()[method].title}, {reference.settings()['datasets'][dataset]['title']}"
        label = where + (f", M = {memory:,}" if memory else "")
        assert f"| {label} | {100 * found.mean():.1f} ± {100 * found.std():.1f} |" in text
    assert len(cells) == 4
