"""emi-bench: reproduce, extend and trust the results of online class-incremental learning.

In a notebook: `emi_bench.run(...)` is one run, `emi_bench.sweep(...)` a sweep; `load_results`, `load_runs` and
`load_anytime` read a results folder into pandas. The rest is the command `emi-bench`.
"""

from __future__ import annotations

import importlib
from importlib.metadata import version
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emi_bench.api import Result, run, sweep
    from emi_bench.store import load_anytime, load_results, load_runs

__version__ = version("emi-bench")
__all__ = ["Result", "__version__", "load_anytime", "load_results", "load_runs", "run", "sweep"]


def __getattr__(name: str) -> Any:
    """Imported when asked for: readers bring pandas along, which a command may not need."""
    if name in ("load_anytime", "load_results", "load_runs"):
        from emi_bench import store

        return getattr(store, name)
    if name == "Result":
        from emi_bench.api import Result

        return Result
    raise AttributeError(f"module 'emi_bench' has no attribute '{name}'")


class _Called(ModuleType):
    """A folder of the package that can be called too: `emi_bench.run(...)` beside `emi_bench.run.loop`.

    Python sets `emi_bench.run` to the folder whenever something below it is imported, so a function of that name would
    be lost at some later moment; a folder that is the function never is.
    """

    @property
    def _function(self) -> Any:
        from emi_bench import api

        return getattr(api, self.__name__.rpartition(".")[2])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    @property
    def __signature__(self) -> Any:  # what help and editors show
        import inspect

        return inspect.signature(self._function)

    def __reduce__(self) -> Any:  # pickled by name, as any module is by cloudpickle
        return importlib.import_module, (self.__name__,)


for _name in ("run", "sweep"):
    importlib.import_module(f"emi_bench.{_name}").__class__ = _Called
