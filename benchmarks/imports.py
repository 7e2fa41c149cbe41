"""CPU seconds of reading a store, against those of importing pandas and pyarrow alone."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys

ALONE = "import pandas, pyarrow, pyarrow.parquet"
READING = "import emi_bench; emi_bench.load_runs({!r})"
AT_MOST = 1.5


def cpu_seconds(code: str) -> float:
    """Of a process of its own, user and system."""
    before = os.times()
    subprocess.run([sys.executable, "-c", code], check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="?", default="results")
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    reading = READING.format(asked.results)
    for code in (ALONE, reading):  # what is not yet compiled or in the page cache would count
        cpu_seconds(code)
    pairs = [(cpu_seconds(ALONE), cpu_seconds(reading)) for _ in range(asked.repeats)]
    alone, ours = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(f"importing pandas and pyarrow  {alone:6.2f} CPU s")
    print(f"emi_bench.load_runs           {ours:6.2f} CPU s")
    print(f"ratio                         {ours / alone:6.2f}  (at most {AT_MOST})")


if __name__ == "__main__":
    main()
