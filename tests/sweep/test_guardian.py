"""What is left when Ray takes the process of a sweep with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from emi_bench.cli.app import app
from tests.sweep.sweeping import ROOT, WAIT, assert_complete, checkpoints, family, named, sweep_file, wait_for

#: Work that dies as it would by C++, the first times.
DIES = """
import os, sys, time
from pathlib import Path
from emi_bench.cli.guardian import guarded

def work():
    tries = Path(sys.argv[1])
    tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
    if len(tries.read_text()) <= int(sys.argv[2]):
        os._exit(1)
    print("at work", flush=True)
    time.sleep(float(sys.argv[3]))
    sys.exit(3)

guarded(work, "emi-bench sweep a.yaml", local=True)
"""

linux = pytest.mark.skipif(sys.platform != "linux", reason="the guardian is Linux's")


def guarded(folder: Path, deaths: int, seconds: float = 0.0) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "RAY_ADDRESS": ""}
    words = [sys.executable, "-c", DIES, str(folder / "tries"), str(deaths), str(seconds)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


@linux
@pytest.mark.parametrize(("deaths", "code", "tries"), [(0, 3, 1), (1, 3, 2), (2, 1, 2)])
def test_a_sweep_that_dies_with_ray_is_begun_anew_once(deaths: int, code: int, tries: int, tmp_path: Path) -> None:
    process = guarded(tmp_path, deaths)
    output, _ = process.communicate(timeout=WAIT)
    assert process.returncode == code
    assert len((tmp_path / "tries").read_text()) == tries
    assert output.count("Ray went down and took the sweep with it (exit code 1). Finished tasks are kept.") == deaths
    assert ("go on with: emi-bench sweep a.yaml" in output) == (deaths == 2)


@linux
def test_a_killed_guardian_takes_the_sweep_along_and_a_stopped_one_lets_it_end(tmp_path: Path) -> None:
    process = guarded(tmp_path, 0, seconds=60)
    assert process.stdout is not None
    process.stdout.readline()
    (child,) = (int(p) for p in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
    process.kill()
    process.wait()
    until = time.monotonic() + 30
    while Path(f"/proc/{child}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(f"/proc/{child}").exists()


def test_only_a_sweep_on_ray_has_a_guardian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []

    def guard(work: object, again: str, *, local: bool) -> None:
        told.append((again, local))

    monkeypatch.setenv("RAY_ADDRESS", "")
    file, invoke = sweep_file(tmp_path), partial(CliRunner().invoke, app, obj=guard)
    for words in (
        ["--executor", "inline", "--dry-run"],
        ["--executor=inline", "--only=method=nobody"],
        ["--help"],
        ["--dry-run"],
    ):
        invoke(["sweep", str(file), *words])
    assert told == []
    invoke(["sweep", str(file), "--seeds", "0"])
    invoke(["sweep", str(file), "--address=here:1"])
    monkeypatch.setenv("RAY_ADDRESS", "there:1")
    invoke(["sweep", str(file)])
    again = f"emi-bench sweep {file}"
    assert told == [(f"{again} --seeds 0", True), (f"{again} --address=here:1", False), (again, False)]


@linux
@pytest.mark.slow
@pytest.mark.parametrize("part", ["raylet/raylet", "gcs_server"])
def test_a_sweep_whose_ray_is_killed_starts_another_and_goes_on(part: str, tmp_path: Path) -> None:
    # Long enough: workers outlive their raylet, and half a minute may pass before anyone notices.
    file, results = sweep_file(tmp_path, seeds=6, batch=2), tmp_path / "results"
    words = [sys.executable, "-c", "from emi_bench.cli import main; main()", "sweep", file, "--results", results]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "RAY_ADDRESS": "", "OMP_NUM_THREADS": "1"}
    sweep = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    wait_for(lambda: checkpoints(results), sweep)
    killed = named(family(sweep.pid), part)
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    assert len(killed) == 1
    output, _ = sweep.communicate(timeout=WAIT)
    assert sweep.returncode == 0, output
    assert "starting a new Ray and going on" in output, output
    assert_complete(file, results)
