"""Fifty kills at instants of a seeded list: of drivers, workers, the node and Ray itself. Nothing is lost, repeated or
changed, and nothing is left. `EMI_BENCH_CHAOS=inline:30,ray:20,seed:0` sets the numbers."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console

from emi_bench.store import Store
from emi_bench.sweep.asked import Asked
from emi_bench.sweep.check import read_sweep
from emi_bench.sweep.driver import run_sweep
from emi_bench.sweep.logs import read_log
from emi_bench.sweep.plan import expand
from tests.sweep.sweeping import ROOT, WAIT, assert_complete, claim_pids, sweep_file
from tests.sweep.test_guardian import family

ASKED = dict(part.split(":") for part in os.environ.get("EMI_BENCH_CHAOS", "inline:30,ray:20,seed:0").split(","))
PARTS = {"node": "raylet/raylet", "ray": "gcs_server"}
SPAN = {"inline": 2.0, "ray": 6.0}  # seconds after a first claim within which a kill falls

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc"),
]


@dataclass
class Forked:
    """A child of this process."""

    pid: int
    returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if found else None
        return self.returncode


@dataclass
class Chaos:
    """One store at a time, a sweep on it, and what was done to it."""

    folder: Path
    executor: str
    kills: list[tuple[str, float]]  #: whom, and how long after the first claim
    done: Counter[str] = field(default_factory=Counter)
    stores: int = 0

    def run(self) -> None:
        while self.kills:
            self.stores += 1
            place = self.folder / str(self.stores)
            place.mkdir()
            file = sweep_file(place, seeds=2, batch=8, methods="er, finetune")
            while (code := self._sweep(file, place / "results")) != 0:
                assert code in (1, 137, -9), code
            self._check(file, place / "results")

    def _sweep(self, file: Path, results: Path) -> int:
        sweep = self._forked(file, results) if self.executor == "inline" else self._started(file, results)
        until = time.monotonic() + WAIT
        while sweep.poll() is None:
            assert time.monotonic() < until
            if self.kills and claim_pids(results):
                self._kill(sweep, results)
            time.sleep(0.02)
        return int(sweep.returncode)

    def _forked(self, file: Path, results: Path) -> Forked:
        """A sweep in a copy of this process, which has imported all it needs."""
        pid = os.fork()
        if pid == 0:
            code = 99
            with contextlib.suppress(BaseException):
                asked = Asked(file, str(results), executor="inline", claim_seconds=8)
                code = run_sweep(Console(quiet=True), asked)
            os._exit(code)
        return Forked(pid)

    def _started(self, file: Path, results: Path) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-c", "from emi_bench.cli import main; main()", "sweep", file, "--results", results]
        words += ["--claim-seconds", "8"]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "RAY_ADDRESS": "", "OMP_NUM_THREADS": "1"}
        with open(results.with_suffix(".txt"), "ab") as out:
            return subprocess.Popen(words, stdout=out, stderr=out, env=environment)

    def _kill(self, sweep: Forked | subprocess.Popen[bytes], results: Path) -> None:
        victim, after = self.kills[-1]
        time.sleep(after)
        pids = {"driver": [sweep.pid], "worker": claim_pids(results)[:1]}.get(victim)
        if pids is None:
            pids = [p for p in family(sweep.pid) if _command(p).endswith(PARTS[victim])]
        if sweep.poll() is None and pids:
            self.kills.pop()
            self.done[victim] += 1
            with contextlib.suppress(ProcessLookupError):
                os.kill(pids[0], signal.SIGKILL)

    def _check(self, file: Path, results: Path) -> None:
        assert_complete(file, results)
        store = Store(results)
        for cell in expand(*read_sweep(file))[0]:
            assert read_log(store.files, cell.run_id).count("\ndone in ") <= 1, cell.spec.label


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    except OSError:
        return ""


@pytest.mark.parametrize(
    ("executor", "victims"),
    [("inline", ["driver"]), ("ray", ["driver", "worker", "worker", "node", "ray"])],
    ids=["inline", "ray"],
)
def test_kills_at_random_instants_lose_repeat_change_and_leave_nothing(
    executor: str, victims: list[str], tmp_path: Path
) -> None:
    draw = random.Random(f"{ASKED['seed']} {executor}")
    n = int(ASKED[executor])
    kills = [(victims[i % len(victims)], draw.uniform(0, SPAN[executor])) for i in range(n)]
    draw.shuffle(kills)
    chaos = Chaos(tmp_path, executor, kills)
    chaos.run()
    print(f"{executor}: {sum(chaos.done.values())} kills {dict(chaos.done)}, {chaos.stores} stores of 4 runs")
    assert sum(chaos.done.values()) == n
