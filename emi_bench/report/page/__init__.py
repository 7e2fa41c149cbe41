"""The offline page: one HTML file with everything in it."""

from emi_bench.report.page.render import render

__all__ = ["render"]
