"""Parquet in and out; the only package that writes results."""

from emi_bench.store.frames import load_results, load_runs
from emi_bench.store.store import DamagedFile, Store

__all__ = ["DamagedFile", "Store", "load_results", "load_runs"]
