"""The bare network passes of one step of each method, memory full: what the step cannot do without.

Taken from the method specifications: how many images go through the network, and whether a backward follows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from emi_bench.problem import Problem


class Pass(NamedTuple):
    """n images through the network in train mode; with a backward, or without autograd."""

    images: int
    backward: bool = True


def _pool(p: Problem) -> int:
    """MIR's candidates."""
    return min(5 * p.replay_batch, p.memory)


PASSES: dict[str, Callable[[Problem], list[Pass]]] = {
    "finetune": lambda p: [Pass(p.batch)],
    "er": lambda p: [Pass(p.batch), Pass(p.replay_batch)],
    "agem": lambda p: [Pass(p.batch), Pass(p.replay_batch)],
    "mir": lambda p: [Pass(p.batch), Pass(_pool(p), False), Pass(_pool(p), False), Pass(p.replay_batch)],
    "dvc": lambda p: [
        Pass(2 * p.batch),
        *[Pass(2 * min(5 * p.replay_batch, p.memory), backward=False)] * 2,
        Pass(2 * p.replay_batch),
    ],
    "scr": lambda p: [Pass(p.batch + p.replay_batch)] * 2,
    "pcr": lambda p: [Pass(2 * p.batch), Pass(2 * p.replay_batch)],
    "gss": lambda p: [Pass(p.batch), Pass(p.replay_batch), *[Pass(10)] * 10, Pass(p.batch)],
    "onpro": lambda p: [Pass(32 * (p.batch + p.replay_batch)), Pass(p.replay_batch), Pass(2 * p.replay_batch)],
    "gss": lambda p: [Pass(p.batch), Pass(p.replay_batch), *[Pass(10)] * 10, Pass(p.batch)],
}
