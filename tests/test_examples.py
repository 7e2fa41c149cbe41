"""The example of the guide runs as the guide says."""

from __future__ import annotations

from pathlib import Path

import emi_bench
from tests.test_cli import QUICK, invoke

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_the_guides_own_method_runs(tmp_path: Path) -> None:
    plugin = str(EXAMPLES / "my_method.py")
    words = ["--method", "balanced_er", "--dataset", "digits", "--memory", "100", "--results", str(tmp_path)]
    invoke("run", "--plugin", plugin, *words, *QUICK, "--set", "replay_weight=0.5")
    runs = emi_bench.load_runs(tmp_path)
    assert runs.method.tolist() == ["balanced_er"]
    assert runs.config[0]["replay_weight"] == 0.5
    assert runs.average_accuracy[0] > 0.15
