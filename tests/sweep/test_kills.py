"""Real processes, real signals. After the same command once more: every cell once, bit for bit undisturbed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sweep.sweeping import (
    WAIT,
    ask,
    assert_complete,
    call,
    checkpoints,
    claim_pids,
    computed,
    start,
    sweep_file,
    wait_for,
)


@pytest.fixture
def words(tmp_path: Path, address: str) -> list[str]:
    file = sweep_file(tmp_path)
    return ["sweep", str(file), "--results", str(tmp_path / "results"), "--address", address]


@pytest.mark.slow  # without Ray: tests/sweep/test_inline.py
def test_a_killed_driver_costs_at_most_the_task_at_hand(tmp_path: Path, words: list[str]) -> None:
    sweep_file(tmp_path, images=50, seeds=1)
    results = tmp_path / "results"
    driver = start(*words, "--claim-seconds", "8")
    wait_for(lambda: checkpoints(results), driver)
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    output = ask(*words, "--claim-seconds", "8")
    assert "went on after task" in output
    assert_complete(tmp_path / "small.yaml", results)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_stopped_driver_says_how_to_go_on_and_holds_nothing(
    tmp_path: Path, words: list[str], number: signal.Signals
) -> None:
    results = tmp_path / "results"
    driver = start(*words)
    wait_for(lambda: checkpoints(results), driver)
    driver.send_signal(number)
    output, _ = driver.communicate(timeout=WAIT)
    assert driver.returncode == 128 + number
    assert f"Go on with: emi-bench sweep {tmp_path / 'small.yaml'}" in output
    assert "Traceback" not in output
    assert claim_pids(results) == []
    call(*words)
    assert_complete(tmp_path / "small.yaml", results)


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_its_run_goes_on(tmp_path: Path, words: list[str]) -> None:
    results = tmp_path / "results"
    driver = start(*words)
    os.kill(wait_for(lambda: claim_pids(results, begun=True), driver)[0], signal.SIGKILL)
    output, _ = driver.communicate(timeout=WAIT)
    assert driver.returncode == 0, output
    assert "its worker was lost" in output
    assert "went on after task" in output
    assert "raylet" not in output
    assert_complete(tmp_path / "small.yaml", results)


@pytest.mark.slow
def test_a_killed_node_costs_its_runs_at_most_one_task(tmp_path: Path, cluster: Any) -> None:
    # Only the node that dies has what the runs need at first; another of its kind joins afterwards.
    results = tmp_path / "results"
    file = sweep_file(tmp_path, seeds=2, resources="{cpu: 1, gpu: 0.5, device: cpu, custom: {spot: 1}}")
    node = cluster.add_node(num_cpus=2, num_gpus=1, resources={"spot": 2})
    driver = start("sweep", file, "--results", results, "--address", cluster.address)
    wait_for(lambda: checkpoints(results), driver)
    cluster.remove_node(node, allow_graceful=False)
    replacement = cluster.add_node(num_cpus=2, num_gpus=1, resources={"spot": 2})
    try:
        output, _ = driver.communicate(timeout=WAIT)
    finally:
        cluster.remove_node(replacement)
    assert driver.returncode == 0, output
    assert "went on after task" in output
    assert_complete(file, results)


@pytest.mark.slow
def test_two_drivers_on_one_store_share_the_work(tmp_path: Path, words: list[str]) -> None:
    drivers = [start(*words, "--max-concurrent", "1") for _ in range(2)]
    outputs = [d.communicate(timeout=WAIT)[0] for d in drivers]
    assert [d.returncode for d in drivers] == [0, 0], outputs
    assert sum(map(computed, outputs)) == 4, outputs
    assert_complete(tmp_path / "small.yaml", tmp_path / "results")


@pytest.mark.slow
def test_a_store_that_vanishes_for_a_moment_loses_nothing(tmp_path: Path, words: list[str]) -> None:
    results = tmp_path / "results"
    driver = start(*words)
    wait_for(lambda: checkpoints(results), driver)
    results.rename(tmp_path / "away")
    time.sleep(4)
    assert not results.exists()  # nobody made it anew
    (tmp_path / "away").rename(results)
    output, _ = driver.communicate(timeout=WAIT)
    assert driver.returncode == 0, output
    assert_complete(tmp_path / "small.yaml", results)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "results"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"a file system of its own may not be mounted here: {done.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> Path:
    filler = disk / "_filler"
    with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as out:
        while True:
            out.write(b"x" * 4096)
    return filler


@pytest.mark.slow
def test_a_disk_that_is_full_for_a_moment_is_waited_for(small_disk: Path, tmp_path: Path, words: list[str]) -> None:
    driver = start(*words)
    wait_for(lambda: checkpoints(small_disk), driver)
    filler = fill(small_disk)
    time.sleep(4)
    filler.unlink()
    output, _ = driver.communicate(timeout=WAIT)
    assert driver.returncode == 0, output
    assert_complete(tmp_path / "small.yaml", small_disk)


@pytest.mark.slow
def test_a_disk_that_stays_full_fails_the_runs_and_the_same_command_mends_it(
    small_disk: Path, tmp_path: Path, words: list[str]
) -> None:
    driver = start(*words, "--patience", "2")
    wait_for(lambda: checkpoints(small_disk), driver)
    filler = fill(small_disk)
    output, _ = driver.communicate(timeout=WAIT)
    assert driver.returncode == 1, output
    assert "the disk is full" in output or "No space" in output
    filler.unlink()
    call(*words)
    assert_complete(tmp_path / "small.yaml", small_disk)
