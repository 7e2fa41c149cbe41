"""The bare network passes of one step of each method, memory full: what the step cannot do without.

Taken from the method specifications: how many images go through the network, and whether a backward follows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from emi_bench.methods.aser import samples_per_class
from emi_bench.problem import Problem


class Pass(NamedTuple):
    """n images through the network in train mode; with a backward, or without autograd."""

    images: int
    backward: bool = True


def _pool(p: Problem) -> int:
    """MIR's candidates."""
    return min(5 * p.replay_batch, p.memory)


def _balanced(p: Problem, sets: int = 1) -> int:
    """Images in disjoint class-balanced sets of ASER, all classes being stored."""
    return p.n_classes * min(sets * int(samples_per_class(p)), p.memory // p.n_classes)


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
    "ocm": lambda p: [
        *(Pass(32 * (p.batch + p.replay_batch)), Pass(p.replay_batch)),
        *(Pass(p.replay_batch, False), Pass(16 * p.replay_batch, False)),
    ],
    "emi": lambda p: [
        *(Pass(32 * (p.batch + p.replay_batch)), Pass(2 * 6 * p.n_classes)),
        *(Pass(p.replay_batch), Pass(16 * p.replay_batch, False)),
    ],
    "onpro": lambda p: [Pass(32 * (p.batch + p.replay_batch)), Pass(p.replay_batch), Pass(2 * p.replay_batch)],
    "er_ace": lambda p: [Pass(p.batch), Pass(p.replay_batch)],
    "derpp": lambda p: [Pass(p.batch), Pass(p.replay_batch), Pass(p.replay_batch)],
    "mkd": lambda p: [*[Pass(p.batch + p.replay_batch)] * 2, Pass(p.batch + p.replay_batch, False)],
    "ccl_dc": lambda p: [Pass(p.batch + p.replay_batch)] * 5,  # of both peers
    "gsa": lambda p: [Pass(2 * (p.replay_batch // 2)), Pass(2 * p.replay_batch)],
    "mose": lambda p: [Pass(4 * (p.replay_batch // 2 + p.replay_batch))],
    "aser": lambda p: [
        *(Pass(p.batch, False), Pass(_balanced(p) + p.batch, False), Pass(_balanced(p, 2) - _balanced(p), False)),
        *(Pass(p.replay_batch, False), Pass(p.replay_batch + p.batch)),
        *(Pass(_balanced(p), False), Pass(min(_balanced(p), p.memory - _balanced(p)) + p.batch, False)),
    ],
}
