"""`deploy/slurm.sbatch` with fake commands of Slurm and Ray: what reaches the sweep, and what happens afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "deploy" / "slurm.sbatch"
#: A sweep that takes a moment to stop cleanly.
DRIVER = """#!/bin/bash
echo "$@" >>"$SLURM_SUBMIT_DIR/asked"
trap '/bin/sleep 0.5; echo stopped cleanly >>"$SLURM_SUBMIT_DIR/log"; exit 143' TERM
touch "$SLURM_SUBMIT_DIR/started"
for _ in $(seq "${STEPS:-200}"); do /bin/sleep 0.05; done
echo finished >>"$SLURM_SUBMIT_DIR/log"
exit "${CODE:-0}"
"""
SCONTROL = """#!/bin/bash
if [ "$1" = show ]; then printf 'one\\ntwo\\n'; else echo "scontrol $*" >>"$SLURM_SUBMIT_DIR/log"; fi
"""

#: The head answers at the third question, both nodes have joined at the second.
RAY = """#!/bin/bash
echo "$1" >>"$SLURM_SUBMIT_DIR/ray-asked"
n=$(grep -c "^$1$" "$SLURM_SUBMIT_DIR/ray-asked")
if [ "$1" = health-check ]; then [ "$n" -ge 3 ]; exit; fi
for _ in $(seq "$n"); do echo " 1 node_abc"; done
"""
ARRAY = {"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_COUNT": "16"}

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash on this machine")


def start(folder: Path, script: Path = SCRIPT, **env: str) -> subprocess.Popen[bytes]:
    commands = folder / "bin"
    commands.mkdir()
    fakes = {
        "emi-bench": DRIVER,
        "scontrol": SCONTROL,
        "srun": "#!/bin/bash\necho 10.0.0.1\n",
        "ray": RAY,
        "sleep": "#!/bin/bash\n",
    }
    for name, text in fakes.items():
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    slurm = {"SLURM_JOB_ID": "7", "SLURM_SUBMIT_DIR": str(folder), "SLURM_JOB_NODELIST": "one,two"}
    environment = os.environ | slurm | {"PATH": f"{commands}:{os.environ['PATH']}"} | env
    return subprocess.Popen(["bash", str(script), "a.yaml", "--seeds", "0"], env=environment, stdout=subprocess.DEVNULL)


def stopped(folder: Path, number: signal.Signals) -> tuple[int, list[str]]:
    """Exit code and events of a job that gets a signal while its sweep is at work."""
    job = start(folder)
    until = time.monotonic() + 60
    while not (folder / "started").exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    job.send_signal(number)
    code = job.wait(60)
    assert not list(folder.glob(".ray-token-*"))
    return code, (folder / "log").read_text().splitlines()


def test_near_its_time_limit_a_job_stops_the_sweep_cleanly_and_then_queues_again(tmp_path: Path) -> None:
    assert "--signal=B:USR1@" in SCRIPT.read_text()
    assert stopped(tmp_path, signal.SIGUSR1) == (143, ["stopped cleanly", "scontrol requeue 7"])


def test_a_cancelled_job_stops_the_sweep_cleanly_and_stays_cancelled(tmp_path: Path) -> None:
    assert stopped(tmp_path, signal.SIGTERM) == (143, ["stopped cleanly"])


@pytest.mark.parametrize("code", [0, 1])
def test_a_job_ends_as_its_sweep_does(tmp_path: Path, code: int) -> None:
    assert start(tmp_path, STEPS="1", CODE=str(code)).wait(60) == code
    assert (tmp_path / "log").read_text() == "finished\n"
    asked = (tmp_path / "asked").read_text()
    assert asked == f"sweep a.yaml --results {tmp_path}/results --address 10.0.0.1:20007 --seeds 0\n"
    assert (tmp_path / "ray-asked").read_text().split() == ["health-check"] * 3 + ["status"] * 2  # and not longer


def test_a_head_that_does_not_come_up_ends_the_job(tmp_path: Path) -> None:
    assert start(tmp_path, WAIT_TRIES="2").wait(60) == 1
    assert not (tmp_path / "asked").exists()


def test_a_task_of_an_array_has_its_shard(tmp_path: Path) -> None:
    script = SCRIPT.with_name("slurm-array.sbatch")
    assert start(tmp_path, script, STEPS="1", SLURM_ARRAY_JOB_ID="7", **ARRAY).wait(60) == 0
    asked = (tmp_path / "asked").read_text()
    assert asked == f"sweep a.yaml --results {tmp_path}/results --executor inline --shard 3/16 --seeds 0\n"
