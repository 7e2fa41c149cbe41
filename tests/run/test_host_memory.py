"""What a step frees is there for the next one."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from emi_bench.run.host_memory import TUNABLES, children_keep_freed_memory
from emi_bench.sweep.executors.ray import connection

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")

#: Twenty arrays of 100 MB one after the other, and what is left of the last.
WORK = """
import resource, sys, threading
from pathlib import Path
from emi_bench.run.host_memory import give_memory_back, keep_freed_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 20

def work():
    for _ in range(20):
        array = b"x" * (100 << 20)
        del array

if "keep" in sys.argv:
    assert keep_freed_memory()
if "thread" in sys.argv:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
else:
    work()
held = resident()
give_memory_back()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt, held, resident())
"""
ONE = (100 << 20) // 4096  # pages of an array


def told(*words: str, tunables: str | None = None) -> tuple[int, int, int]:
    """Page faults, and the resident MB before and after all is given back."""
    env = {k: v for k, v in os.environ.items() if k != "GLIBC_TUNABLES"}
    env |= {"GLIBC_TUNABLES": tunables} if tunables else {}
    run = subprocess.run([sys.executable, "-c", WORK, *words], env=env, capture_output=True, text=True, check=True)
    faults, held, rest = map(int, run.stdout.split())
    return faults, held, rest


@glibc
def test_the_pages_of_a_freed_array_are_used_again_and_given_back_at_the_end() -> None:
    plain, held, _ = told()
    assert plain > 15 * ONE
    assert held < 100
    kept, held, rest = told("keep")
    assert kept < 2 * ONE
    assert held > 100
    assert rest < 100


@glibc
def test_a_process_that_is_started_so_keeps_them_in_its_threads_too() -> None:
    kept, held, rest = told("thread", tunables=TUNABLES)
    assert kept < 2 * ONE
    assert held > 100
    assert rest < 100


@glibc
def test_the_peak_of_a_run_leaves_out_what_an_earlier_one_in_the_process_freed() -> None:
    code = """
from emi_bench.run.host_memory import keep_freed_memory
from emi_bench.run.measure import peak_memory_bytes, reset_peak_memory
assert keep_freed_memory()
earlier = b"x" * (300 << 20)
before = peak_memory_bytes("cpu")
del earlier
reset_peak_memory("cpu")
print(before - peak_memory_bytes("cpu") >> 20)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(run.stdout) > 200


def test_the_workers_of_a_local_ray_are_started_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    seen: list[str | None] = []
    monkeypatch.setattr(ray, "init", lambda **options: seen.append(os.environ.get("GLIBC_TUNABLES")))
    monkeypatch.setenv("GLIBC_TUNABLES", "")  # whatever comes of it is undone
    monkeypatch.delenv("GLIBC_TUNABLES")
    monkeypatch.setattr(connection, "_temp_folder", lambda: "nowhere")
    connection.start({"CPU": 1.0}, every_core=False)
    assert seen == [TUNABLES]


def test_what_the_user_told_glibc_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.check=3")
    children_keep_freed_memory()
    assert os.environ["GLIBC_TUNABLES"] == "glibc.malloc.check=3"
