"""Parquet in and out; the only package that writes results. Knows no torch and no Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emi_bench.store.curves import load_anytime
    from emi_bench.store.frames import load_results, load_runs
    from emi_bench.store.store import DamagedFile, Store

__all__ = ["DamagedFile", "Store", "load_anytime", "load_results", "load_runs"]


def __getattr__(name: str) -> Any:
    """Imported when asked for: a sweep needs no pandas, a default of a claim no pyarrow."""
    if name in ("load_results", "load_runs"):
        from emi_bench.store import frames

        return getattr(frames, name)
    if name == "load_anytime":
        from emi_bench.store import curves

        return curves.load_anytime
    if name in ("DamagedFile", "Store"):
        from emi_bench.store import store

        return getattr(store, name)
    raise AttributeError(f"module 'emi_bench.store' has no attribute '{name}'")
