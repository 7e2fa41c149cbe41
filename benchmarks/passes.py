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


PASSES: dict[str, Callable[[Problem], list[Pass]]] = {
    "finetune": lambda p: [Pass(p.batch)],
    "er": lambda p: [Pass(p.batch), Pass(p.replay_batch)],
}
