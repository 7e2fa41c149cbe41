"""What it saves to keep the memory that a step frees (`emi_bench.run.host_memory`), on a CPU with glibc.

    python -m benchmarks.host_memory er scr ocm emi --pairs 3
    python -m benchmarks.host_memory emi --size 16 --width 8      (the proxy)

Each pair is two processes of their own, one after the other: the method's steps as torch leaves the C library, and with
`keep_freed_memory`. The figure is the median ratio of processor time (one thread: other load on the machine hardly
counts), with the pages a step asks the kernel for and the resident peak of both.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time

import torch

from benchmarks.passes import PASSES
from benchmarks.steps import make_problem, warmed_up
from emi_bench.run.host_memory import keep_freed_memory


def steps(name: str, size: int, width: int, seconds: float) -> dict[str, float]:
    """Here and now: processor milliseconds and page faults a step, the peak in MB."""
    torch.set_num_threads(1)
    method, x, y = warmed_up(name, make_problem(size, width, 1000, 10, 64))
    for _ in range(2):
        method.observe(x, y)
    faults, start, n = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.process_time(), 0
    while (spent := time.process_time() - start) < seconds or n < 3:
        method.observe(x, y)
        n += 1
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {"ms": 1000 * spent / n, "faults": (used.ru_minflt - faults) / n, "peak": used.ru_maxrss / 1024}


def apart(name: str, size: int, width: int, seconds: float, *, keep: bool) -> dict[str, float]:
    """The same in a process of its own."""
    words = [name, "--size", str(size), "--width", str(width), "--seconds", str(seconds), *(["--keep"] if keep else [])]
    told = subprocess.run(
        [sys.executable, "-m", "benchmarks.host_memory", "--here", *words], capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(told.stdout.splitlines()[-1])
    return found


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="+", choices=list(PASSES), metavar="METHOD")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--width", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=5.0, help="of steps in each process")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--keep", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(words)
    if args.here:
        if args.keep and not keep_freed_memory():
            parser.error("the C library of this machine is not glibc")
        print(json.dumps(steps(args.methods[0], args.size, args.width, args.seconds)))
        return
    print(f"kept / as torch leaves it, {args.size}x{args.size}, width {args.width}, one thread, {args.pairs} pairs")
    print(f"{'method':10} {'ms before':>9} {'after':>7} {'time ratio':>11} {'pages a step':>15} {'peak MB':>13}")
    for name in args.methods:
        pairs = [
            [apart(name, args.size, args.width, args.seconds, keep=keep) for keep in (False, True)]
            for _ in range(args.pairs)
        ]
        (ms, kept_ms), (faults, kept_faults), (peak, kept_peak) = (
            [statistics.median(pair[i][key] for pair in pairs) for i in range(2)] for key in ("ms", "faults", "peak")
        )
        ratio = statistics.median(kept["ms"] / plain["ms"] for plain, kept in pairs)
        print(
            f"{name:10} {ms:9.1f} {kept_ms:7.1f} {ratio:11.3f} {f'{faults:.0f} -> {kept_faults:.0f}':>15} "
            f"{f'{peak:.0f} -> {kept_peak:.0f}':>13}",
            flush=True,
        )


if __name__ == "__main__":
    main()
