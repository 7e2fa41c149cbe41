"""Numbers to test against: inputs and outputs recorded from independent computations of the specifications."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent / "golden"


@cache
def golden(name: str) -> Any:
    """The content of `tests/golden/NAME.json` (or `.json.gz`). Shared between tests: do not change it."""
    plain = ROOT / f"{name}.json"
    if plain.exists():
        return json.loads(plain.read_text())
    return json.loads(gzip.decompress((ROOT / f"{name}.json.gz").read_bytes()))
