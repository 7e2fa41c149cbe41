"""Small sweeps, drivers as processes, and the question every test ends with: is each cell there once, and right?"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

from emi_bench.data import load
from emi_bench.run.loop import run
from emi_bench.run.spec import RunSpec
from emi_bench.store import load_runs
from emi_bench.sweep.check import read_sweep
from emi_bench.sweep.plan import expand

ROOT = Path(__file__).parents[2]
WAIT = 900  # seconds; machines are shared

SWEEP = """
name: small
methods: [{methods}]
settings:
  - dataset: digits
    memory: 40
seeds: {seeds}
protocol: {{width: 2, batch: {batch}, replay_batch: 5{images}}}
resources: {resources}
"""


def sweep_file(
    folder: Path,
    *,
    methods: str = "er",
    seeds: int = 4,
    batch: int = 5,
    images: int | None = None,
    resources: str = "{gpu: 0}",
    more: str = "",
) -> Path:
    """With so many training images of a class, else all of them: what is to be killed must take its time."""
    few = "" if images is None else f", train_per_class: {images}, test_per_class: 10"
    path = folder / "small.yaml"
    path.write_text(SWEEP.format(methods=methods, seeds=seeds, batch=batch, images=few, resources=resources) + more)
    return path


def start(*words: str | Path, **env: str) -> subprocess.Popen[str]:
    """A driver; its output is read at the end."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "200"} | env
    return subprocess.Popen(
        [sys.executable, "-m", "tests.sweep.driver", *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        cwd=ROOT,
    )


#: Processes that have nothing to import: forks of one that has, and that runs nothing itself.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["emi_bench.cli.sweep", "emi_bench.sweep.driver", "sklearn.datasets", "torch._dynamo"])


def _driver(out: str, typed: str, environment: dict[str, str], words: list[str]) -> None:
    for stream in (1, 2):
        os.dup2(os.open(out, os.O_WRONLY | os.O_APPEND), stream)
    sys.stdin = open(typed)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(ROOT)
    from tests.sweep.driver import main

    main(words)


class Forked:
    """A driver without Ray, with as much of `subprocess.Popen` as is asked of it."""

    def __init__(self, *words: str | Path, typed: str = "") -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".in", delete=False) as file:
            file.write(typed)
        self._typed, self._out = Path(file.name), Path(file.name).with_suffix(".out")
        self._out.touch()
        args = (str(self._out), file.name, os.environ | {"COLUMNS": "200"}, [*map(str, words)])
        self._process = FORKS.Process(target=_driver, args=args)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def communicate(self, timeout: float = WAIT) -> tuple[str, None]:
        self._process.join(timeout)
        assert self.poll() is not None, "it does not end"
        output = self._out.read_text()
        for file in (self._typed, self._out):
            file.unlink()
        return output, None


def call(*words: str | Path, code: int = 0, **env: str) -> str:
    """A driver, to its end."""
    process = start(*words, **env)
    output, _ = process.communicate(timeout=WAIT)
    assert process.returncode == code, output
    return output


def ask(*words: str | Path, code: int = 0) -> str:
    """A command that needs no process of its own, in this one."""
    from tests.sweep.driver import app

    answer = CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "200"}, catch_exceptions=False)
    assert answer.exit_code == code, answer.output
    return answer.output


def wait_for(what: Callable[[], Any], process: subprocess.Popen[str] | Forked | None = None) -> Any:
    until = time.monotonic() + WAIT
    while time.monotonic() < until:
        if found := what():
            return found
        if process is not None and process.poll() is not None:
            raise AssertionError(f"the driver ended too early:\n{process.communicate()[0]}")
        time.sleep(0.02)
    raise AssertionError("nothing happened")


def checkpoints(results: Path) -> list[Path]:
    return list((results / "_checkpoints").glob("[!_]*.pt"))


def claim_pids(results: Path, *, begun: bool = False) -> list[int]:
    """Processes that hold runs; with `begun` only of runs that have finished a task."""
    ids = {path.stem for path in checkpoints(results)}
    found = []
    for path in (results / "_claims").glob("[!_]*"):
        with contextlib.suppress(FileNotFoundError):  # given back meanwhile
            match = re.search(r'"pid": (\d+)', path.read_text())
            if match and (not begun or path.stem in ids):
                found.append(int(match[1]))
    return found


@cache
def undisturbed(spec_json: str) -> bytes:
    """The matrix of a run that nobody touched."""
    spec = RunSpec.model_validate_json(spec_json)
    return run(spec, load(spec.dataset, reduction=spec.protocol.reduction)).matrix.tobytes()


def assert_complete(file: Path, results: Path) -> None:
    """Every cell of the sweep once, bit for bit the matrix of an undisturbed run, and nothing left lying about."""
    sweep, source = read_sweep(file)
    cells, _ = expand(sweep, source)
    found = load_runs(results)
    assert sorted(found["run_id"]) == sorted(c.run_id for c in cells)
    assert len(list(results.rglob("*.parquet"))) == len(cells)
    by_id = {row["run_id"]: row["matrix"] for _, row in found.iterrows()}
    for cell in cells:
        matrix = np.frombuffer(undisturbed(cell.spec.model_dump_json())).reshape(by_id[cell.run_id].shape)
        np.testing.assert_array_equal(by_id[cell.run_id], matrix)
    left = [p for folder in ("_checkpoints", "_claims", "_failures") for p in (results / folder).glob("*")]
    assert left == []
    assert not list(results.rglob("*.tmp"))


def computed(output: str) -> int:
    """Runs that a driver says it computed itself."""
    match = re.search(r"(\d+) of them now", output)
    return int(match[1]) if match else 0


def family(root: int) -> set[int]:
    """A process and all that came of it."""
    parent: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {root}
    while new := {p for p, q in parent.items() if q in found} - found:
        found |= new
    return found


def named(pids: set[int], command: str) -> list[int]:
    """Those of some processes whose command ends so."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode().endswith(command):
                found.append(pid)
    return found
