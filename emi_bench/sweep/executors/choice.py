"""Executors by name; each is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module

from emi_bench.errors import UserError
from emi_bench.registry import did_you_mean
from emi_bench.sweep.asked import Asked
from emi_bench.sweep.executors.protocol import Executor

EXECUTORS = {"ray": ("ray.executor", "RayExecutor"), "inline": ("inline", "InlineExecutor")}


def make_executor(asked: Asked) -> Executor:
    """The executor that is asked for."""
    if asked.executor not in EXECUTORS:
        raise UserError(f"no executor '{asked.executor}'", hint=did_you_mean(asked.executor, EXECUTORS))
    module, name = EXECUTORS[asked.executor]
    made: Executor = getattr(import_module(f"emi_bench.sweep.executors.{module}"), name)(asked)
    return made
