"""Sweeps in one process: what is run, what is said, what a signal costs. Whatever does not need Ray is tried here."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
import torch

from emi_bench import methods
from emi_bench.errors import UserError
from emi_bench.store import Store
from emi_bench.store.failures import Failures
from emi_bench.store.leases import Claims
from emi_bench.sweep import job
from emi_bench.sweep.check import read_sweep
from emi_bench.sweep.executors.ray import connection
from emi_bench.sweep.plan import expand
from tests.sweep.sweeping import (
    WAIT,
    Forked,
    ask,
    assert_complete,
    checkpoints,
    claim_pids,
    computed,
    sweep_file,
    wait_for,
)

PLUGIN = Path(__file__).with_name("own_methods.py")


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    return ["sweep", str(tmp_path / "small.yaml"), "--results", str(tmp_path / "results"), "--executor", "inline"]


def test_a_sweep_in_this_process_runs_every_cell_and_more_seeds_only_what_is_new(
    tmp_path: Path, words: list[str]
) -> None:
    file = sweep_file(tmp_path, methods="er, finetune", batch=10, images=20, seeds=2)
    assert computed(ask(*words, "--seeds", "0")) == 2
    assert computed(ask(*words)) == 2
    assert_complete(file, tmp_path / "results")
    assert "nothing to do" in ask(*words)
    assert "4/4 done" in ask("status", file, "--results", tmp_path / "results")


def test_runs_that_fail_by_themselves_are_recorded_and_do_not_stop_the_others(
    tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "_plugins", {})  # no other test sees them
    monkeypatch.setattr(job, "_loaded", set())
    more = f"plugins: [{PLUGIN}]\n"
    file = sweep_file(tmp_path, methods="raises, diverges, fine, finetune", seeds=1, batch=10, images=20, more=more)
    results = tmp_path / "results"
    output = ask(*words, code=1)
    assert computed(output) == 2
    assert output.count("FAILED raises") == 2  # when it happened, and in the summary
    assert "a bug of the user's" in output
    told = ask("failures", "--results", results)
    assert "own_methods.py" in told  # the traceback
    assert "not finite" in told
    assert "emi-bench run --method raises --dataset digits" in told
    assert told.count(f"--results {results} --device cpu") == 2  # the commands that repeat them, in the same store
    assert output.count(f"--results {results} --device cpu") == 2
    assert "2 failed" in ask("status", file, "--results", results)
    again = ask(*words, "--fail-fast", code=1)
    assert computed(again) == 0
    assert "stopped at the first failure" in again
    assert again.count("  again: ") == 1
    assert "2 times in a row" in ask("failures", "--results", results, "--brief")
    (raises,) = [f for f in Failures(Store(results).files).all().values() if f.label.startswith("raises")]
    assert "task 1/5 done" in ask("logs", raises.run_id[:10], "--results", results)
    assert "> failed after" in told  # the end of the log
    assert "0 of 1 went well" in ask("failures", raises.run_id[:10], "--retry", "--results", results, code=1)
    assert "1 forgotten; a sweep tries" in ask("failures", raises.run_id[:10], "--forget", "--results", results)
    assert "1 failed" in ask("failures", "--results", results)


def test_a_killed_sweep_costs_at_most_the_task_at_hand(tmp_path: Path, words: list[str]) -> None:
    file, results = sweep_file(tmp_path, images=30, seeds=1), tmp_path / "results"
    driver = Forked(*words)
    wait_for(lambda: checkpoints(results), driver)
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    assert "went on after task" in ask(*words)
    assert_complete(file, results)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_stopped_sweep_says_how_to_go_on_and_holds_nothing(
    tmp_path: Path, words: list[str], number: signal.Signals
) -> None:
    file, results = sweep_file(tmp_path, images=30, seeds=1), tmp_path / "results"
    driver = Forked(*words)
    wait_for(lambda: checkpoints(results), driver)
    driver.send_signal(number)
    output, _ = driver.communicate(timeout=WAIT)
    assert driver.returncode == 128 + number
    assert f"Go on with: emi-bench {' '.join(words)}" in output
    assert "Traceback" not in output
    assert claim_pids(results) == []
    ask(*words)
    assert_complete(file, results)


def test_two_sweeps_on_one_store_share_the_work(tmp_path: Path, words: list[str]) -> None:
    file = sweep_file(tmp_path, batch=10, images=20)
    drivers = [Forked(*words) for _ in range(2)]
    outputs = [d.communicate(timeout=WAIT)[0] for d in drivers]
    assert [d.returncode for d in drivers] == [0, 0], outputs
    assert sum(map(computed, outputs)) == 4, outputs
    assert_complete(file, tmp_path / "results")


def test_shards_begin_with_their_own_share_and_finish_what_others_leave(tmp_path: Path, words: list[str]) -> None:
    file, results = sweep_file(tmp_path, batch=10, images=20, methods="finetune", seeds=4), tmp_path / "results"
    cells, _ = expand(*read_sweep(file))
    held = Claims(Store(results).files).acquire(cells[3].run_id, owner="another")
    assert held is not None
    output = ask(*words, "--shard", "2/2")
    begun = re.findall(r"finetune digits seed (\d)", output)
    assert begun == ["1", "0", "2"]  # of its own share the last is held: it leaves that and what is left of the other
    assert "1 runs are held by others" in output
    assert "how far the others are: emi-bench status" in output
    Claims(Store(results).files).release(held)
    assert computed(ask(*words, "--shard", "1/2")) == 1
    assert_complete(file, results)
    with pytest.raises(UserError, match="the third of sixteen is --shard 3/16"):
        ask(*words, "--shard", "3/2")


def test_a_time_limit_ends_runs_with_a_record(tmp_path: Path, words: list[str]) -> None:
    file = sweep_file(tmp_path, batch=2, images=20, methods="finetune", seeds=1, resources="{gpu: 0, time: 6h}")
    assert expand(*read_sweep(file))[0][0].resources.time == 21600
    output = ask(*words, "--time", "0.01s", code=1)
    assert "FAILED finetune digits seed 0: the run took longer than 0 s, its limit" in output
    with pytest.raises(UserError, match="write --time 90s"):
        ask(*words, "--time", "soon")


def test_a_breakpoint_in_a_method_stops_the_sweep_at_it(tmp_path: Path, words: list[str]) -> None:
    plugin = tmp_path / "stops.py"
    plugin.write_text(
        """
from emi_bench.methods.finetune import FineTune

class Stops(FineTune):
    name = "stops"
    def observe(self, x, y):
        if not hasattr(self, "stopped"):
            self.stopped = True
            breakpoint()
        return super().observe(x, y)
"""
    )
    sweep_file(tmp_path, methods="stops", seeds=1, batch=10, images=20, more=f"plugins: [{plugin}]\n")
    driver = Forked(*words, typed="p x.shape, 6 * 7\nc\n")
    output, _ = driver.communicate()
    assert driver.returncode == 0, output
    assert "(torch.Size([10, 3, 8, 8]), 42)" in output
    assert computed(output) == 1


def test_options_of_a_cluster_are_refused(tmp_path: Path, words: list[str]) -> None:
    sweep_file(tmp_path)
    with pytest.raises(UserError, match="--address means nothing to the inline executor"):
        ask(*words, "--address", "auto")
    with pytest.raises(UserError, match="no executor 'inlin'"):
        ask(*words[:-1], "inlin")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("seeds: 1\nresources: {custom: {a100: 1}, gpu: 0}", r"asks for 1 CPU, 1 a100 each.* custom\.a100"),
        (
            "seeds: 4\nresources: {gpu: 1}",
            "4 runs ask for 1 CPU, 1 GPU each, and no node has that: the cluster has 1 node",
        ),
        ("sedes: 1", "Did you mean seeds"),
    ],
)
def test_what_can_never_run_here_makes_no_folder_and_starts_no_ray(
    tmp_path: Path, wrong: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*told: object, **options: object) -> None:
        raise AssertionError("Ray was started")

    monkeypatch.setattr(connection, "start", never)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setenv("RAY_ADDRESS", "")
    file = sweep_file(tmp_path)
    file.write_text(file.read_text().replace("seeds: 4", wrong).replace("\nresources: {gpu: 0}\n", "\n", 1))
    with pytest.raises(UserError, match=f"(?s){says}"):
        ask("sweep", file, "--results", tmp_path / "results")
    assert not (tmp_path / "results").exists()
