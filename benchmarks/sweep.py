"""What a sweep costs beside its runs: `python -m benchmarks.sweep [planning] [cells] [utilisation]`.

planning     10,000 cells against a store of 10,000 results
cells        500, 1,000 and 2,000 cells with nothing to compute: seconds to the first, driver's CPU time for each
utilisation  real runs on all cores: the share of the slots' time that is spent in runs
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from emi_bench.data import load
from emi_bench.run.execute import execute
from emi_bench.store import Store
from emi_bench.store.patient import PatientStore
from emi_bench.sweep.asked import Asked
from emi_bench.sweep.check import read_sweep
from emi_bench.sweep.cost import Costs
from emi_bench.sweep.driver import Driver, run_sweep
from emi_bench.sweep.executors.choice import make_executor
from emi_bench.sweep.plan import Cell, expand, make_plan
from emi_bench.sweep.progress import Display
from emi_bench.sweep.resources import Request, cores

GRID = """
name: bench
methods: [{methods}]
settings:
  - dataset: digits
    memory: [{memory}]
seeds: {seeds}
protocol: {{width: {width}, batch: {batch}, replay_batch: {replay}}}
resources: {{gpu: 0}}
"""


def grid(
    folder: Path,
    *,
    seeds: int,
    methods: str = "er",
    memory: str = "50",
    batch: int = 100,
    replay: int = 10,
    width: int = 2,
) -> Path:
    file = folder / "bench.yaml"
    file.write_text(GRID.format(methods=methods, memory=memory, seeds=seeds, batch=batch, replay=replay, width=width))
    return file


def fill(store: PatientStore, cells: list[Cell]) -> None:
    """A result for every cell: one real run, copied under every name (fsync would dominate here)."""
    store.files.mark()
    execute(cells[0].spec, store, lambda: load("digits"))
    content = store.files.read(Store.path(cells[0].spec))
    assert content is not None
    for cell in cells:
        path = Path(store.files.full(Store.path(cell.spec)))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def planning(folder: Path) -> None:
    file = grid(folder, seeds=1000, methods="er, mir, scr, pcr, agem", memory="50, 100")
    store = PatientStore(folder / "results")
    cells, _ = expand(*read_sweep(file))
    fill(store, cells)
    began, cpu = time.perf_counter(), time.process_time()
    cells, _ = expand(*read_sweep(file))
    expanded = time.perf_counter()
    plan = make_plan(cells, store)
    costs = Costs(store, cells, plan.results)
    for cell in cells:
        costs.of(cell, gpu=False)
    total = time.perf_counter() - began
    assert len(plan.done) == 10_000
    print(
        f"planning 10,000 cells against 10,000 results: {total:.2f} s, {time.process_time() - cpu:.2f} s of CPU "
        f"(cells and ids: {expanded - began:.2f} s)"
    )


class FirstStart(Display):
    first: float | None = None

    def started(self, cell: Cell) -> None:
        self.first = self.first or time.perf_counter()
        super().started(cell)


def empty_cells(folder: Path, n: int) -> None:
    """Cells whose results are there already, run nevertheless: claim, look, give back."""
    file = grid(folder, seeds=n)
    store = PatientStore(folder / f"results-{n}")
    sweep, source = read_sweep(file)
    cells, _ = expand(sweep, source)
    fill(store, cells)
    asked = Asked(file, store.files.uri)
    with contextlib.closing(make_executor(asked)) as executor:
        executor.start(cores())
        up = time.perf_counter()
        display = FirstStart(Console(quiet=True), cells, 0, {c.run_id: 1.0 for c in cells})
        requests = {c.run_id: Request() for c in cells}
        driver = Driver(asked, sweep, store, executor, requests, {}, display)
        cpu = time.process_time()
        executor.run(driver.job(cells), cells, driver)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - up
    assert display.ended_now["present"] == n
    assert display.first is not None
    print(
        f"{n} empty cells: first started {display.first - up:.1f} s after Ray was up, driver "
        f"{1000 * cpu / n:.0f} ms CPU a cell, {wall / n:.3f} s a cell in all"
    )


def utilisation(folder: Path) -> None:
    """Runs of a minute or more on one core."""
    file = grid(folder, seeds=6, methods="ocm", batch=3, replay=16, width=8)
    run_sweep(Console(), Asked(file, str(folder / "results-used")))


def main(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "planning" in names:
            planning(folder)
        for n in (500, 1000, 2000) if "cells" in names else ():
            empty_cells(folder, n)
        if "utilisation" in names:
            utilisation(folder)


if __name__ == "__main__":
    main(sys.argv[1:] or ["planning", "cells", "utilisation"])
