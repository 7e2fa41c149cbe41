"""Whether the processor can do what it says of itself."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from emi_bench.errors import UserError

LIMIT, WITHOUT_AMX = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16"
PROBE = """
import torch
layer = torch.nn.Linear(160, 128)
with torch.autocast("cpu", dtype=torch.bfloat16):
    layer(torch.ones(64, 160)).float().sum().backward()
"""


@cache
def bf16_crashes() -> bool:
    """Some virtual machines name matrix units (AMX) that they do not let anyone use: torch then dies of an illegal
    instruction in the first layer in bfloat16. Tried in another process, where such units are named."""
    try:
        named = "amx_bf16" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    if not named or LIMIT in os.environ:
        return False
    return subprocess.run([sys.executable, "-c", PROBE], capture_output=True, check=False).returncode < 0


def check_precision(precision: str, device: str) -> None:
    """Refuse what would end the process without a word."""
    if precision == "bf16" and device == "cpu" and bf16_crashes():
        raise UserError(
            "this processor names matrix units for bfloat16, and torch dies of an illegal instruction in them",
            hint=f"do without them: export {LIMIT}={WITHOUT_AMX}",
        )
