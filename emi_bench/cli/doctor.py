"""What this machine has, and whether a run would work here."""

from __future__ import annotations

import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from emi_bench.data import data_root, describe
from emi_bench.errors import UserError
from emi_bench.store.files import Files

GIB = 2**30


def examine(results: str, root: Path | None) -> tuple[list[tuple[str, str]], bool]:
    """Findings as (name, text), and whether all that a run needs is there."""
    place = data_root(root)
    findings = [
        ("emi-bench", version("emi-bench")),
        ("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        ("torch", f"{torch.__version__}, {torch.get_num_threads()} threads"),
        ("device", _device()),
        ("ray", _package("ray")),
        ("data root", f"{place}{'' if place.exists() else ' (does not exist yet)'}"),
    ]
    findings += [(f"  {row['name']}", str(row["found"] or "missing")) for row in describe(root)]
    free = shutil.disk_usage(_existing(place)).free
    findings.append(("free disk", f"{free / GIB:.1f} GiB"))
    troubles = [] if free > GIB else ["less than 1 GiB of disk is free"]
    try:
        Files(results).check_writable()
        findings.append(("results", f"{results} is writable"))
    except UserError as e:
        findings.append(("results", e.message))
        troubles.append("results cannot be written")
    ok = "ready: `emi-bench run --method er --dataset digits --memory 100` works without a download"
    findings.append(("verdict", ok if not troubles else "not ready: " + "; ".join(troubles)))
    return findings, not troubles


def _device() -> str:
    if not torch.cuda.is_available():
        return "cpu (no CUDA device is visible)"
    cards = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return ", ".join(f"{c.name} {c.total_memory / GIB:.0f} GiB" for c in cards)


def _package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _existing(path: Path) -> Path:
    return next(p for p in [path, *path.parents] if p.exists())
