"""Independent random streams of one run, derived from its seed by purpose.

The class order, the stream order and the initial weights of a seed are the same for every method, so that methods are
compared on the same ten experiments; only `method` differs from method to method in what it is used for.
"""

from __future__ import annotations

import hashlib

LAST_SEED = 2**63 - 1  #: results keep a seed in 64 bits
PURPOSES = ("class_order", "stream", "weights", "method", "features", "anytime", "blur")


def seed_for(seed: int, purpose: str, index: int = 0) -> int:
    """A 63-bit seed for one purpose (and, say, one task) of a run.

    >>> seed_for(0, "stream", 1) == seed_for(0, "stream", 1), seed_for(0, "stream", 1) == seed_for(1, "stream", 1)
    (True, False)
    """
    if purpose not in PURPOSES:
        raise ValueError(f"unknown purpose {purpose!r}; known: {', '.join(PURPOSES)}")
    digest = hashlib.sha256(f"emi-bench:{seed}:{purpose}:{index}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
