"""Reading results brings neither torch nor Ray along."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "results" / "digits"

READERS = [
    "from emi_bench.store.leftovers import leftovers; assert not leftovers(emi_bench.store.Store(where))",
    "assert len(emi_bench.load_runs(where)) == 30",
    "assert len(emi_bench.load_results(where)) == 30 * 15 - 2 * 10",  # the offline bound has its last row only
    "from emi_bench.store.beside import feature_reader; assert feature_reader(where)('0') is None",
    "from emi_bench.store.leases import Claims; assert not Claims(emi_bench.store.Store(where).files).live()",
    "from emi_bench.store.failures import Failures; assert not Failures(emi_bench.store.Store(where).files).all()",
]


def test_readers_import_no_torch_and_no_ray() -> None:
    """All in one process; the first that does is on the last line of its traceback."""
    heavy = "assert not {'torch', 'torchvision', 'ray', 'matplotlib', 'sklearn'} & set(sys.modules)"
    code = f"import sys, emi_bench, emi_bench.store; where = {str(RESULTS)!r}\n"
    code += "\n".join(f"{reader}\n{heavy}, {reader!r}" for reader in READERS)
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
