"""The synthetic full grid, made once a session: the same shape with three seeds instead of ten where that is enough."""

from __future__ import annotations

import pandas as pd
import pytest

from emi_bench.report.evidence import Evidence
from emi_bench.report.grid import Grid
from emi_bench.report.options import Scope
from tests.report.synthetic import digits_runs, grid_cells, study_cells, synthetic_runs, tidy

SMALL = [("cifar10", 5, 200), ("cifar10", 5, 500), ("cifar100", 10, 500), ("cifar100", 10, 1000)]
GAPS = [("emi", "cifar10", 200, 3), ("ocm", "cifar100", 500, 0), *[("scr", "cifar10", 500, s) for s in range(4)]]


@pytest.fixture(scope="session")
def paper_runs() -> pd.DataFrame:
    """SYNTHETIC: every method on four of the paper's columns and all studies, four seeds, some cells missing."""
    return synthetic_runs([*grid_cells(settings=SMALL), *study_cells()], range(4), GAPS)


@pytest.fixture(scope="session")
def paper_rows(paper_runs: pd.DataFrame) -> pd.DataFrame:
    return tidy(paper_runs)


@pytest.fixture(scope="session")
def paper_grid(paper_runs: pd.DataFrame) -> Grid:
    return Grid(paper_runs, Scope(paper_grid=True))


@pytest.fixture(scope="session")
def paper_evidence(paper_grid: Grid) -> Evidence:
    return Evidence(paper_grid)


@pytest.fixture(scope="session")
def digits_frame() -> pd.DataFrame:
    """SYNTHETIC: a grid that is not the paper's."""
    return digits_runs()


@pytest.fixture(scope="session")
def digits_grid(digits_frame: pd.DataFrame) -> Grid:
    return Grid(digits_frame)


@pytest.fixture(scope="session")
def digits_evidence(digits_grid: Grid) -> Evidence:
    return Evidence(digits_grid)
