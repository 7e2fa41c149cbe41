"""Parquet in and out; the only package that writes results. Knows no torch and no Ray."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emi_bench.store.beside import load_anytime
    from emi_bench.store.frames import load_results, load_runs
    from emi_bench.store.store import DamagedFile, Store

__all__ = ["DamagedFile", "Store", "load_anytime", "load_results", "load_runs"]
_MODULES = dict(zip(__all__, ("store", "store", "beside", "frames", "frames"), strict=True))


def __getattr__(name: str) -> Any:
    """Imported when asked for: a sweep needs no pandas, a default of a claim no pyarrow."""
    if name not in _MODULES:
        raise AttributeError(f"module 'emi_bench.store' has no attribute '{name}'")
    return getattr(import_module(f"emi_bench.store.{_MODULES[name]}"), name)
