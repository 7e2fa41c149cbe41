"""The command `emi-bench`: a thin layer over the package."""

from emi_bench.cli.app import main

__all__ = ["main"]
