"""The Ray that a sweep starts by itself cannot be reached from another machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LISTENING = """
import os
from pathlib import Path
from emi_bench.sweep.cluster import connected


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


def inodes(pids):
    for pid in pids:
        try:
            links = [os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            continue
        yield from (text[8:-1] for text in links if text.startswith("socket:["))


with connected(None) as cluster:
    mine = set(inodes(family()))
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in mine:
                print(words[1].partition(":")[0])
"""
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads Linux's /proc")
def test_every_port_of_a_local_ray_is_on_loopback() -> None:
    done = subprocess.run([sys.executable, "-c", LISTENING], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    hosts = done.stdout.split()
    assert len(hosts) >= 3  # the control store, the node, the driver
    assert set(hosts) <= LOOPBACK
