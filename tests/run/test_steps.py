"""A run says that it advances: after its load and after every step of an optimiser, wherever that is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from emi_bench.run.execute import execute
from emi_bench.run.resolve import resolve
from emi_bench.store import Store
from emi_bench.store.leases import ClaimLost
from tests.synthetic import FAST, register_blobs


def test_training_inside_a_tasks_end_counts_and_nothing_is_heard_of_a_run_that_is_over(tmp_path: Path) -> None:
    data = register_blobs("steps", 4, 2, 10)
    heard = 0

    def hear() -> None:
        nonlocal heard
        heard += 1

    gdumb = resolve("gdumb", "steps", memory=8, config={"epochs": 3}, protocol=FAST)  # its steps only collect
    execute(gdumb, Store(tmp_path), lambda: data, threads=1, on_step=hear)
    assert heard == 1 + 2 * 3  # a batch holds the whole memory
    execute(resolve("finetune", "steps", protocol=FAST), Store(tmp_path), lambda: data, threads=1)
    assert heard == 7


def test_a_run_that_was_taken_over_ends_at_its_next_step(tmp_path: Path) -> None:
    data = register_blobs("steps", 4, 2, 10)
    heard = 0

    def hear() -> None:
        nonlocal heard
        heard += 1
        if heard == 3:
            raise ClaimLost

    with pytest.raises(ClaimLost):
        execute(resolve("finetune", "steps", protocol=FAST), Store(tmp_path), lambda: data, threads=1, on_step=hear)
    assert heard == 3
