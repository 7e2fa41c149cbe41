"""Executors by name; each is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable

from emi_bench.errors import UserError
from emi_bench.registry import did_you_mean
from emi_bench.sweep.asked import Asked
from emi_bench.sweep.executors.protocol import Executor


def _inline(asked: Asked) -> Executor:
    from emi_bench.sweep.executors.inline import InlineExecutor

    return InlineExecutor(asked)


def _ray(asked: Asked) -> Executor:
    from emi_bench.sweep.executors.ray.executor import RayExecutor

    return RayExecutor(asked)


EXECUTORS: dict[str, Callable[[Asked], Executor]] = {"ray": _ray, "inline": _inline}


def make_executor(asked: Asked) -> Executor:
    """The executor that is asked for."""
    if asked.executor not in EXECUTORS:
        raise UserError(f"no executor '{asked.executor}'", hint=did_you_mean(asked.executor, EXECUTORS))
    return EXECUTORS[asked.executor](asked)
