"""Kills at instants of a seeded list: of drivers, workers, nodes and Ray itself. Nothing is lost, repeated or changed,
and nothing is left. `EMI_BENCH_CHAOS=inline:28,ray:12,cluster:12,seed:0,limit:1200` sets the numbers."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emi_bench.store import Store
from emi_bench.store.leftovers import clear_scratch, scratch
from emi_bench.store.processes import running, tag
from emi_bench.sweep.check import read_sweep
from emi_bench.sweep.executors.ray import private
from emi_bench.sweep.logs import read_log
from emi_bench.sweep.plan import expand
from tests.sweep.sweeping import ROOT, assert_complete, family, named, sweep_file

ASKED = {"inline": "28", "ray": "12", "cluster": "12", "seed": "0", "limit": "1200"}
ASKED |= dict(part.split(":") for part in os.environ.get("EMI_BENCH_CHAOS", "").split(",") if part)
#: Whom a kill hits. `sweep` is the process beside the guardian, `raylet` and `gcs` are of the sweep's own Ray, `node`
#: is a whole node of a cluster that has two.
VICTIMS = {
    "inline": ["driver"],
    "ray": ["driver", "worker", "worker", "raylet", "gcs", "sweep"],
    "cluster": ["driver", "worker", "node"],
}
#: Kills that a pass is to get, one after the other: a Ray takes long to start.
IN_A_PASS = {"inline": 1, "ray": 3, "cluster": 3}
PARTS = {"raylet": "raylet/raylet", "gcs": "gcs_server"}
LIMIT = float(ASKED["limit"])  # seconds that one command may take, with all that is done to it; a longer one has failed
TTL = "8"  # seconds without a sign of life after which a claim is free
#: A driver that hangs tells where, when it is ended by SIGABRT. Without bytecode every worker would compile torch anew.
ENVIRONMENT = {
    "PYTHONPATH": str(ROOT),
    "PYTHONDONTWRITEBYTECODE": "",
    "PYTHONFAULTHANDLER": "1",
    "OMP_NUM_THREADS": "1",
    "RAY_ADDRESS": "",
}
#: Ray would give up what is only slow.
SLOWLY = {
    "RAY_gcs_server_port_wait_time_s": "600",
    "RAY_agent_register_timeout_ms": "600000",
    "RAY_worker_register_timeout_seconds": "600",
    private.RAYLET_START: "600",
}

#: Imports once, and is then one command after another: a file for its output and its words come in, its process number
#: and its exit code go out. It runs nothing itself, so that its children begin as new processes do.
COMMANDS = """
import json, os, sys
import sklearn.datasets
import torch._dynamo  # the first step of a run would import it
import emi_bench.sweep.driver
from emi_bench.cli import main

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        out, *sys.argv[1:] = json.loads(line)
        for stream, file in ((0, os.devnull), (1, out), (2, out)):
            os.dup2(os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND), stream)
        main()
        sys.exit(0)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc"),
]


class Nodes:
    """A cluster whose runs are on two nodes that may die; another comes for each."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        self.nodes = [self._another() for _ in range(2)]
        self.cluster.wait_for_nodes(timeout=LIMIT)

    def kill(self, which: int) -> None:
        self.cluster.remove_node(self.nodes[which], allow_graceful=False)
        self.nodes[which] = self._another()

    def _another(self) -> Any:
        return self.cluster.add_node(wait=False, num_cpus=1)  # it would wait for 30 s at most


@pytest.fixture
def nodes(place: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes | None]:
    if place != "cluster":
        yield None
        return
    for key, value in (private.LOCAL | SLOWLY).items():
        monkeypatch.setenv(key, value)
    with private.patient_start(LIMIT):
        made = Nodes()
        yield made
    made.cluster.shutdown()


class Command:
    """One `emi-bench ...`, as a child of the process that has imported."""

    def __init__(self, parent: subprocess.Popen[bytes], out: Path, *words: str | Path) -> None:
        assert parent.stdin is not None
        assert parent.stdout is not None
        self._told, self.began = parent.stdout, time.time()
        parent.stdin.write(json.dumps([*map(str, (out, *words))]).encode() + b"\n")
        self.pid = int(self._told.readline())
        self.code: int | None = None

    def over(self) -> bool:
        if self.code is None and select.select([self._told], [], [], 0.02)[0]:
            self.code = int(self._told.readline())
        return self.code is not None


@pytest.fixture
def commands() -> Iterator[subprocess.Popen[bytes]]:
    words = [sys.executable, "-c", COMMANDS]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, bufsize=0, stdin=pipe, stdout=pipe, env=os.environ | ENVIRONMENT | SLOWLY) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


class Chaos:
    """One store after another, a sweep on it, and what was done to it. The first is left in peace, for its pace."""

    def __init__(
        self,
        folder: Path,
        place: str,
        kills: list[tuple[str, float]],
        commands: subprocess.Popen[bytes],
        nodes: Nodes | None,
    ) -> None:
        self.folder, self.place, self.kills, self.commands, self.nodes = folder, place, kills, commands, nodes
        self.done: Counter[str] = Counter()
        self.stores = self.passes = 0
        self.ours: set[int] = set()  #: processes of the sweeps
        self.longest = 0.0
        self.usual = 0.0  #: seconds from a first claim to the end, of the last pass that came to it

    def run(self) -> None:
        while self.kills:
            folder = self.folder / str(self.stores)
            folder.mkdir()
            file, results = sweep_file(folder, seeds=2, batch=40, methods="er, finetune"), folder / "results"
            written: dict[Path, int] = {}
            ended = False
            while not ended:
                before = sum(self.done.values())
                ended = self._pass(file, results) == 0
                assert ended or sum(self.done.values()) > before, f"ended by itself:\n{self._told(results)}"
                now = {path: path.stat().st_mtime_ns for path in results.glob("*/*/[!_]*.parquet")}
                assert now.items() >= written.items()  # a result that was there is there, and was not made anew
                written = now
            self._check(file, results)
            self.stores += 1

    def _pass(self, file: Path, results: Path) -> int:
        """The command, once."""
        self.passes += 1
        how = ["--executor", "inline"] if self.place == "inline" else []
        how = ["--address", self.nodes.cluster.address] if self.nodes else how
        words = ("sweep", file, "--results", results, "--claim-seconds", TTL, *how)
        sweep = Command(self.commands, results.with_suffix(".txt"), *words)
        held = 0.0
        while not sweep.over():
            if time.time() - sweep.began > LIMIT:
                self._end(sweep.pid)
                raise AssertionError(f"not over after {LIMIT:.0f} s:\n{self._told(results)}")
            if _holders(results, sweep.began):
                held = held or time.time()
                if self.stores and self.kills:
                    self._kill(sweep, results)
        if sweep.code == 0 and held:
            self.usual = time.time() - held
        self.longest = max(self.longest, time.time() - sweep.began)
        assert sweep.code is not None
        return sweep.code

    def _kill(self, sweep: Command, results: Path) -> None:
        """Whoever is next; a pass that is over before its instant leaves it to the following one, for half as late."""
        victim, instant = self.kills[-1]
        time.sleep(instant * self.usual / IN_A_PASS[self.place])
        self.ours |= family(sweep.pid)
        if sweep.over():
            self.kills[-1] = victim, instant / 2
            return
        if victim == "node":
            assert self.nodes is not None
            self.nodes.kill(len(self.kills) % 2)
        elif not any(map(_ended, self._hit(victim, sweep, results)[:1])):
            return
        self.kills.pop()
        self.done[victim] += 1

    def _hit(self, victim: str, sweep: Command, results: Path) -> list[int]:
        if victim in PARTS:
            return named(family(sweep.pid), PARTS[victim])
        if victim == "sweep":
            return [int(p) for p in Path(f"/proc/{sweep.pid}/task/{sweep.pid}/children").read_text().split()]
        return [sweep.pid] if victim == "driver" else _holders(results, sweep.began)

    def _end(self, driver: int) -> None:
        for pid in named(of_sweep := family(driver), sys.executable):
            os.kill(pid, signal.SIGABRT)
        time.sleep(2)
        for pid in of_sweep:
            _ended(pid)

    def _told(self, results: Path) -> str:
        return results.with_suffix(".txt").read_text(errors="replace")[-8000:]

    def _check(self, file: Path, results: Path) -> None:
        assert_complete(file, results)
        store = Store(results)
        for cell in expand(*read_sweep(file))[0]:
            assert read_log(store.files, cell.run_id).count("\ndone in ") <= 1, cell.spec.label

    def folders(self) -> list[str]:
        """Of Ray and Tune, that are left of any of the sweeps."""
        machine = tag().partition("-")[0]
        found = Path(tempfile.gettempdir()).glob(f"emi-*{machine}-*")
        return [p.name for p in found if int(p.name.partition(f"{machine}-")[2].partition("-")[0]) in self.ours]


def _holders(results: Path, since: float) -> list[int]:
    """Processes that hold runs, of claims that are not older: those of a killed pass are still there in the next."""
    found = []
    for path in (results / "_claims").glob("[!_]*"):
        with contextlib.suppress(OSError, ValueError):  # given back, or being written
            claim = json.loads(path.read_text())
            found += [claim["pid"]] * (claim["started"] >= since)
    return found


def _ended(pid: int) -> bool:
    """Kill a process that lives, and see it dead: a busy machine takes its time."""
    if not running(pid):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + LIMIT
    while running(pid):
        assert time.monotonic() < until
        time.sleep(0.01)
    return True


@pytest.mark.parametrize("place", VICTIMS)
def test_kills_at_random_instants_lose_repeat_change_and_leave_nothing(
    place: str, nodes: Any, commands: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw, n, whom = random.Random(f"{ASKED['seed']} {place}"), int(ASKED[place]), VICTIMS[place]
    kills = [(whom[i % len(whom)], draw.random()) for i in range(n)]
    draw.shuffle(kills)
    chaos = Chaos(tmp_path, place, kills, commands, nodes)
    began = time.monotonic()
    chaos.run()
    until = time.monotonic() + LIMIT  # a killed Ray ends by and by; then its folder goes with the next sweep
    while chaos.folders() and time.monotonic() < until:
        clear_scratch(scratch())
        time.sleep(2)
    assert chaos.folders() == []
    with capsys.disabled():
        print(
            f"\n{place}: {sum(chaos.done.values())} kills {dict(chaos.done)}, {chaos.stores} stores of 4 runs, "
            f"{chaos.passes} passes (the longest {chaos.longest:.0f} s), {time.monotonic() - began:.0f} s"
        )
    assert sum(chaos.done.values()) == n
