"""emi-bench: reproduce, extend and trust the results of online class-incremental learning.

`load_results`, `load_runs` and `load_anytime` read a results folder into pandas; the rest is the command `emi-bench`.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emi_bench.store import load_anytime, load_results, load_runs

__version__ = version("emi-bench")
__all__ = ["__version__", "load_anytime", "load_results", "load_runs"]


def __getattr__(name: str) -> Any:
    """Readers are imported when asked for: they bring pandas along, which a command may not need."""
    if name in ("load_anytime", "load_results", "load_runs"):
        from emi_bench import store

        return getattr(store, name)
    raise AttributeError(f"module 'emi_bench' has no attribute '{name}'")
