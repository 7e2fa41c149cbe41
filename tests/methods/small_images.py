"""Six classes of 8x8 images and a network of two channels: enough for tests of what a replay method decides."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from emi_bench.methods import Method
from emi_bench.problem import Problem


def small_problem(**changes: Any) -> Problem:
    values = {"dataset": "toy", "n_classes": 6, "n_tasks": 3, "image_size": 8, "memory": 12, "batch": 4}
    return Problem(**(values | {"replay_batch": 5, "width": 2} | changes))


def batch(labels: list[int], seed: int = 0) -> tuple[Tensor, Tensor]:
    """Random bytes with these labels."""
    g = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (len(labels), 3, 8, 8), generator=g, dtype=torch.uint8), torch.tensor(labels)


def assert_replays_from_the_second_step(method: Method, term: str) -> None:
    """Finite losses, and the replay term as soon as something is stored; never without a memory."""
    for seed, labels in enumerate([[0, 1, 1, 0], [1, 0, 0, 1], [2]]):
        losses = method.observe(*batch(labels, seed))
        assert all(v.isfinite() for v in losses.values())
        assert (term in losses) == (method.memory.size > 0 and seed > 0)
