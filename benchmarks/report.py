"""`python -m benchmarks.report`: seconds and memory of a whole report for 500, 1,000 and 1,500 SYNTHETIC runs.

The runs have the full grid's shape (five, ten and a hundred tasks) and are written to a temporary folder as a store's
files. Each size is measured in a process of its own; seconds are CPU seconds of that process, so that other work on the
machine counts less, with wall seconds beside them.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZES = (500, 1000, 1500)


def measure(store: Path, out: Path) -> dict[str, float]:
    """Load, build everything, and say what it took."""
    from emi_bench import load_runs
    from emi_bench.report.build import build_from

    wall, cpu = time.perf_counter(), time.process_time()
    runs = load_runs(store)
    loaded_wall, loaded = time.perf_counter(), time.process_time()
    report = build_from(runs, out)
    return {
        "runs": len(runs),
        "load": loaded - cpu,
        "load_wall": loaded_wall - wall,
        "build": time.process_time() - loaded,
        "build_wall": time.perf_counter() - loaded_wall,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "page_mb": (report.out / "index.html").stat().st_size / 1e6,
        "files": len(report.files),
    }


def main() -> None:
    """Print one line a size."""
    from tests.report.synthetic import synthetic_runs
    from tests.report.synthetic_store import write_store

    runs = synthetic_runs().sample(frac=1, random_state=0)
    heads = ("runs", "load s", "(wall)", "build s", "(wall)", "peak MB", "page MB", "files")
    print(" ".join(f"{h:>8}" for h in heads), flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        for size in SIZES:
            store = write_store(runs.iloc[:size], root / f"store{size}")
            command = [sys.executable, "-m", "benchmarks.report", str(store), str(root / f"out{size}")]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            m = json.loads(done.stdout.splitlines()[-1])
            print(
                f"{m['runs']:>8} {m['load']:>8.2f} {m['load_wall']:>8.2f} {m['build']:>8.1f} {m['build_wall']:>8.1f} "
                f"{m['memory_mb']:>8.0f} {m['page_mb']:>8.2f} {m['files']:>8}",
                flush=True,
            )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(Path(sys.argv[1]), Path(sys.argv[2]))))
    else:
        main()
