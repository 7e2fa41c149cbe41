"""The toy world of the step traces (`golden/steps`): float64, nf=2, four classes, two tasks, every draw known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from emi_bench.draws import Draws
from emi_bench.memory import Memory
from emi_bench.problem import Problem
from tests.golden_files import golden

TOY = golden("steps/toy")
CONSTANTS = TOY["constants"]
PLAN: list[dict[str, Any]] = TOY["plan"]


def problem(**changes: Any) -> Problem:
    c = CONSTANTS
    values = {"dataset": "toy", "n_classes": c["C"], "n_tasks": 2, "image_size": c["side"], "memory": c["memory"]}
    return Problem(**(values | {"batch": 4, "replay_batch": c["replay"], "width": c["nf"]} | changes))


def images(ids: list[int]) -> Tensor:
    """(n,3,8,8) float64 in 0-1"""
    return torch.tensor([TOY["images_uint8_chw"][str(i)] for i in ids], dtype=torch.float64) / 255


def view(x: Tensor, draws: Draws) -> Tensor:
    """The toy augmentation: 0.9 * hflip(x) + 0.05."""
    return 0.9 * x.flip(3) + 0.05


def memory() -> Memory:
    return Memory(CONSTANTS["memory"], (3, 8, 8), dtype=torch.float64)


def initial_state(kind: str) -> dict[str, Tensor]:
    """`plain`, `dual`, `dual_same_level` or `dual_mlp`: the state dict to load before the first step."""
    state = TOY["initial"][kind]["state"]
    return {k: torch.tensor(v, dtype=torch.int64 if k.endswith("tracked") else torch.float64) for k, v in state.items()}


def batches() -> Iterator[tuple[dict[str, Any], Tensor, Tensor, bool]]:
    """For each step: its plan, images, labels, and whether a task ends after it."""
    for i, plan in enumerate(PLAN):
        last = i + 1 == len(PLAN) or PLAN[i + 1]["task"] != plan["task"]
        yield plan, images(plan["ids"]), torch.tensor(plan["labels"]), last


def assert_state(method_net: torch.nn.Module, snapshot: dict[str, Any], *, atol: float = 1e-6) -> None:
    """Parameters and BN statistics equal a snapshot of the trace."""
    mine = method_net.state_dict()
    for name, value in snapshot.items():
        expected = torch.tensor(value, dtype=mine[name].dtype).reshape(mine[name].shape)
        error = (mine[name] - expected).abs().max().item()
        assert error <= atol, f"{name} is off by {error:.2e}"
