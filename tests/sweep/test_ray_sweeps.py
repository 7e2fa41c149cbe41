"""Sweeps on a Ray of their own or on a small cluster: what is run, where, and what is said."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import DecodeError

from emi_bench.errors import UserError
from emi_bench.store import load_runs
from tests.sweep.sweeping import (
    ROOT,
    WAIT,
    ask,
    assert_complete,
    call,
    checkpoints,
    computed,
    start,
    sweep_file,
    wait_for,
)

PLUGIN = Path(__file__).with_name("own_methods.py")


def test_a_sweep_on_a_ray_of_its_own_runs_every_cell_and_leaves_no_trace_of_ray(tmp_path: Path) -> None:
    file, results = sweep_file(tmp_path, images=20, seeds=3), tmp_path / "results"
    driver = start("sweep", file, "--results", results, RAY_ADDRESS="")
    output, _ = driver.communicate(timeout=WAIT)
    assert driver.returncode == 0, output
    assert computed(output) == 3
    assert "emi-bench report" in output
    assert "ray" not in output.replace(str(tmp_path), "").lower()
    assert_complete(file, results)  # three runs in two workers: at least one was used twice
    assert list(Path(tempfile.gettempdir()).glob(f"emi-*-{driver.pid}-*")) == []
    assert "nothing to do" in ask("sweep", file, "--results", results)
    assert "3/3 done" in ask("status", file, "--results", results)


@pytest.mark.slow
def test_fail_fast_stops_at_the_first_failure(tmp_path: Path, address: str) -> None:
    file = sweep_file(tmp_path, methods="raises, er", seeds=2, more=f"plugins: [{PLUGIN}]\n")
    words = ("sweep", file, "--results", tmp_path / "results", "--address", address, "--max-concurrent", "1")
    output = call(*words, "--only", "method=raises", "--fail-fast", code=1)
    assert "stopped at the first failure" in output
    assert output.count("  again: ") == 1


def test_a_resource_that_no_node_has_is_refused_with_the_fix(tmp_path: Path, address: str) -> None:
    file = sweep_file(tmp_path, resources="{cpu: 1, gpu: 0, custom: {a100: 1}}")
    with pytest.raises(UserError) as told:
        ask("sweep", file, "--results", tmp_path / "results", "--address", address)
    assert "ask for 1 CPU, 1 a100 each, and no node has that" in told.value.message
    assert "2 CPU, 1 GPU" in told.value.message
    assert "custom.a100" in told.value.hint
    assert not (tmp_path / "results").exists()


def test_fake_cards_are_shared_as_asked(tmp_path: Path, address: str) -> None:
    file = sweep_file(tmp_path, images=20, seeds=2, resources="{cpu: 1, gpu: 0.5, device: cpu}")
    output = ask("sweep", file, "--results", tmp_path / "results", "--address", address)
    assert "2 at a time" in output
    assert_complete(file, tmp_path / "results")


@pytest.mark.slow
def test_runs_for_cores_do_not_wait_behind_runs_for_cards(tmp_path: Path, address: str) -> None:
    """Twelve runs for the one card, more than Tune queues, and they come first."""
    file, results = sweep_file(tmp_path, batch=50, seeds=12, methods="er, finetune"), tmp_path / "results"
    card = "methods: [{name: er, resources: {gpu: 1, device: cpu}}, finetune]"
    file.write_text(file.read_text().replace("methods: [er, finetune]", card))
    words = ("sweep", file, "--results", results, "--address", address)
    lines = call(*words).splitlines()
    ended = [line.split()[1] for line in lines if line.startswith("[")]
    assert sorted(ended) == ["er"] * 12 + ["finetune"] * 12
    assert "finetune" in ended[:6]
    assert "er" in ended[:6]
    assert_complete(file, results)


#: Another has a part of every card; nevertheless its size is told.
TENANT = """
import sys
import ray
from emi_bench.sweep.executors.ray import connection, nodes

connection.join(sys.argv[1])
ray.get(ray.util.placement_group([{"GPU": 0.05}] * 3, strategy="STRICT_SPREAD").ready())
print(nodes.card_bytes() / 2**20)
"""


@pytest.mark.slow
def test_the_smallest_card_of_all_nodes_is_known_while_others_use_them(tmp_path: Path, cluster: Any) -> None:
    nodes = []
    for megabytes in (24576, 11264):
        commands = tmp_path / str(megabytes)
        commands.mkdir()
        (commands / "nvidia-smi").write_text(f"#!/bin/sh\necho {megabytes}\n")
        (commands / "nvidia-smi").chmod(0o755)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
            nodes.append(cluster.add_node(num_cpus=1, num_gpus=1))
    try:
        words = [sys.executable, "-c", TENANT, cluster.address]
        told = subprocess.run(words, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
    finally:
        for node in nodes:
            cluster.remove_node(node)
    assert told.stdout == "11264.0\n", told.stderr


#: One run, whichever comes first, runs out of memory once; every run notes its share of a card.
FULL_CARD = """
import os, ray, torch
from emi_bench.methods.er import ER

FOLDER = {folder!r}
observe = ER.observe

def observed(self, x, y):
    if not hasattr(self, "noted"):
        self.noted = True
        share = ray.get_runtime_context().get_assigned_resources().get("GPU")
        with open(f"{{FOLDER}}/shares", "a") as out:
            out.write(f"{{os.getpid()}} {{share}}\\n")
        try:
            os.close(os.open(f"{{FOLDER}}/full", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            raise torch.OutOfMemoryError("CUDA out of memory")
    return observe(self, x, y)

ER.observe = observed
"""


@pytest.mark.slow
def test_a_run_that_is_pushed_out_of_a_shared_card_gets_one_to_itself_in_a_process_of_its_own(
    tmp_path: Path, address: str
) -> None:
    plugin = tmp_path / "full_card.py"
    plugin.write_text(FULL_CARD.format(folder=str(tmp_path)))
    resources, results = "{cpu: 1, gpu: 0.5, device: cpu}", tmp_path / "results"
    file = sweep_file(tmp_path, batch=50, seeds=3, resources=resources)
    output = call("sweep", file, "--results", results, "--address", address, "--plugin", plugin)
    assert output.count("ran out of memory on a shared card: it gets one to itself") == 1
    assert "FAILED" not in output
    assert "lost" not in output  # a process that is given up is no fault of the run that was to use it
    assert computed(output) == 3
    noted = [line.split() for line in (tmp_path / "shares").read_text().splitlines()]
    assert sorted(float(share) for _, share in noted) == [0.5, 0.5, 0.5, 1.0]
    spent = noted[0][0]
    assert [pid for pid, _ in noted].count(spent) == 1  # nothing else ran where memory had run out
    assert_complete(file, results)


def test_a_missing_cluster_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no Ray cluster at 127\.0\.0\.1:1"):
        ask("sweep", sweep_file(tmp_path), "--results", tmp_path / "results", "--address", "127.0.0.1:1")


def accuracies(file: Path) -> list[float]:
    """The points of a curve, in tensorboard's format: length, checksum, event, checksum."""
    from tensorboardX.proto.event_pb2 import Event

    content, found = file.read_bytes(), []
    while content:
        end = 12 + int.from_bytes(content[:8], "little")
        values = Event.FromString(content[12:end]).summary.value
        found += [v.simple_value for v in values if v.tag == "ray/tune/accuracy"]
        content = content[end + 4 :]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["SIGINT", "SIGKILL"])
def test_tensorboard_gets_a_curve_of_every_run_and_keeps_it_whatever_ends_the_sweep(
    tmp_path: Path, address: str, number: signal.Signals
) -> None:
    file, results = sweep_file(tmp_path, batch=4, seeds=3), tmp_path / "results"
    words = ("sweep", file, "--results", results, "--address", address, "--log", "tensorboard", "--max-concurrent", "1")
    driver = start(*words, "--claim-seconds", "8")

    def curves() -> list[Path]:
        return sorted((results / "_log").rglob("events.out.tfevents*"), key=lambda f: f.stat().st_mtime_ns)

    def under_way() -> bool:  # one run is done, and another has finished a task
        done = [p.stem[-64:] for p in (results / "digits").rglob("[!_]*.parquet")]
        return bool(done) and any(p.stem not in done for p in checkpoints(results))

    def shown() -> bool:  # a worker reports once a second, and a second later it is on the disk
        done = list((results / "digits").rglob("[!_]*.parquet"))
        with contextlib.suppress(DecodeError):  # being written
            return sum(bool(accuracies(f)) for f in curves()) > len(done)
        return False

    wait_for(under_way, driver)
    wait_for(shown, driver)
    driver.send_signal(number)
    driver.communicate(timeout=WAIT)
    done = load_runs(results)["average_accuracy"]
    assert [accuracies(f)[-1] for f in curves()[: len(done)]] == pytest.approx(list(done), abs=1e-6)
    assert accuracies(curves()[len(done)])  # of the run that was under way
    call(*words)
    names = {f.parent.name for f in (results / "_log").rglob("events.out.tfevents*")}
    assert sorted(n.rpartition("-")[0] for n in names) == [f"er-digits-M=40-seed-{seed}" for seed in (0, 1, 2)]
    assert_complete(file, results)


@pytest.mark.slow
def test_mlflow_gets_runs_that_can_be_told_apart(tmp_path: Path, address: str) -> None:
    pytest.importorskip("mlflow")
    file, results = sweep_file(tmp_path, batch=20, seeds=2), tmp_path / "results"
    at = f"sqlite:///{tmp_path / 'mlflow.db'}"
    call("sweep", file, "--results", results, "--address", address, "--log", "mlflow", MLFLOW_TRACKING_URI=at)
    with contextlib.closing(sqlite3.connect(tmp_path / "mlflow.db")) as db:
        names = {name for (name,) in db.execute("select name from runs")}
        params = set(db.execute("select key, value from params"))
        points = db.execute("select count(*) from metrics where key = 'accuracy'").fetchone()[0]
    assert names == {"er digits M=40 seed 0", "er digits M=40 seed 1"}
    assert {("method", "er"), ("dataset", "digits"), ("memory", "40"), ("seed", "0"), ("seed", "1")} <= params
    assert points >= 2  # of a short run only the end
    assert_complete(file, results)


@pytest.mark.slow
def test_wandb_keeps_what_it_could_not_send(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    file, results = sweep_file(tmp_path, batch=20, seeds=1), tmp_path / "results"
    call("sweep", file, "--results", results, "--log", "wandb", WANDB_MODE="offline")
    assert len(list((results / "_log").rglob("offline-run-*/*.wandb"))) == 1
    assert_complete(file, results)


def test_a_logger_that_is_not_known_is_said_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--log nothing is not known"):
        ask("sweep", sweep_file(tmp_path), "--log", "nothing")
