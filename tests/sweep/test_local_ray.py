"""The Ray that a sweep starts by itself: out of reach of other machines, and with workers that are ready."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from ray.tune.execution import class_cache
from rich.console import Console

from emi_bench.sweep import driver, resources
from emi_bench.sweep.asked import Asked
from emi_bench.sweep.executors.ray import connection
from emi_bench.sweep.executors.ray.private import plain_workers
from tests.sweep.sweeping import sweep_file

RAY = """
import os
import sys
import time
from pathlib import Path
from emi_bench.sweep.executors.ray.connection import leave, start
from emi_bench.sweep.resources import this_machine


def family():
    parent = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, rest = stat.parent.name, stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parent[int(pid)] = int(rest[1])
    found = {os.getpid()}
    while new := {p for p, q in parent.items() if q in found} - found:
        found |= new
    return found


cluster = this_machine()
folder = start(cluster.nodes[0], every_core=True)
"""
LISTENING = """
def inodes(pids):
    for pid in pids:
        try:
            links = [os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            continue
        yield from (text[8:-1] for text in links if text.startswith("socket:["))


mine = set(inodes(family()))
for table in ("tcp", "tcp6"):
    for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and words[9] in mine:
            print(words[1].partition(":")[0])
leave(folder)
"""
READY = """
class Probe:
    def tell(self):
        return os.getpid(), [os.environ.get(k) for k in ("OMP_NUM_THREADS", "RAY_CHDIR_TO_TRIAL_DIR", "OURS")]


def torchlike():  # what has torch in its memory maps, beside this process
    for pid in family() - {os.getpid()}:
        try:
            if "libtorch" in Path(f"/proc/{pid}/maps").read_text():
                yield pid
        except OSError:
            continue


import ray
from emi_bench.sweep.executors.ray.private import plain_workers
from ray.tune.execution.class_cache import _ActorClassCache

with plain_workers(local=True):
    until = time.monotonic() + 100
    while len(ready := set(torchlike())) < cluster.total("CPU") and time.monotonic() < until:
        time.sleep(0.2)
    pid, told = ray.get(_ActorClassCache().get(Probe).remote().tell.remote())
    print(len(ready) == cluster.total("CPU"), pid in ready, *told)
"""
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


linux = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads Linux's /proc")


@linux
@pytest.mark.slow
def test_a_local_ray_listens_on_loopback_alone_and_its_first_workers_are_tunes_with_our_environment() -> None:
    """In a process of its own; one Ray answers both."""
    env = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"} | {"OURS": "yes"}
    script = [sys.executable, "-c", RAY + READY + LISTENING]
    done = subprocess.run(script, capture_output=True, text=True, timeout=300, check=False, env=env)
    assert done.returncode == 0, done.stderr
    workers, *hosts = done.stdout.splitlines()
    assert workers == "True True 1 0 yes"
    assert len(hosts) >= 5  # the control store, the node, the driver, two workers
    assert set(hosts) <= LOOPBACK


def test_keys_to_a_bucket_reach_the_workers_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    class Probe:
        pass

    def brought(local: bool) -> dict[str, str]:
        with plain_workers(local):
            options = class_cache._ActorClassCache().get(Probe)._default_options
        environment = options["runtime_env"].get("env_vars", {})
        assert isinstance(environment, dict)
        return environment

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    assert brought(local=False) == brought(local=True) == {}
    monkeypatch.setenv("AWS_SESSION_TOKEN", "secret")
    assert brought(local=False) == {"AWS_SESSION_TOKEN": "secret"}
    assert brought(local=True) == {}  # inherited


@pytest.mark.parametrize(
    ("seeds", "most", "resources_", "cards", "expected"),
    [
        (4, None, "{gpu: 0}", False, True),
        (3, None, "{gpu: 0}", False, False),  # a core would be left over
        (9, 2, "{gpu: 0}", False, False),
        (9, None, "{gpu: 0, cpu: 2}", False, False),
        (9, None, "{gpu: 0}", True, False),
    ],
)
def test_workers_are_started_in_advance_where_every_core_will_have_a_run(
    seeds: int,
    most: int | None,
    resources_: str,
    cards: bool,
    expected: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Enough(Exception):
        pass

    def start(machine: dict[str, float], *, every_core: bool) -> str:
        raise Enough(every_core)

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(resources, "cores", lambda: 4)
    monkeypatch.setattr("emi_bench.sweep.executors.ray.executor.cores", lambda: 4)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cards)
    monkeypatch.setattr(connection, "start", start)
    asked = Asked(
        sweep_file(tmp_path, seeds=seeds, resources=resources_), str(tmp_path / "results"), max_concurrent=most
    )
    with pytest.raises(Enough) as told:
        driver.run_sweep(Console(quiet=True), asked)
    assert told.value.args == (expected,)
