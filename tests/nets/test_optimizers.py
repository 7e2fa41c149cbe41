"""Optimisers without torch's compiler: the steps are torch's own, and the compiler stays away."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from emi_bench.nets import optimizers

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    ("Adam", {"lr": 0.01, "betas": (0.9, 0.99), "weight_decay": 0.01}),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.1}),
]


def trained(kind: Any, constants: dict[str, Any], resumed: bool = False) -> list[torch.Tensor]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))
    optimizer = kind(net.parameters(), foreach=True, **constants)
    for step in range(6):
        if resumed and step == 3:
            state = optimizer.state_dict()
            optimizer = kind(net.parameters(), foreach=True, **constants)
            optimizer.load_state_dict(state)
        optimizer.zero_grad(set_to_none=True)
        net(torch.randn(7, 5)).square().mean().backward()
        optimizer.step()
    return [p.detach() for p in net.parameters()]


@pytest.mark.parametrize(("name", "constants"), KINDS)
@pytest.mark.parametrize("resumed", [False, True])
def test_steps_are_those_of_torch_bit_for_bit(name: str, constants: dict[str, Any], resumed: bool) -> None:
    ours = trained(getattr(optimizers, name), constants, resumed)
    assert all(torch.equal(a, b) for a, b in zip(ours, trained(getattr(torch.optim, name), constants), strict=True))
    assert torch.is_grad_enabled()


def test_hooks_are_called_after_every_step() -> None:
    steps: list[Any] = []
    handle = register_optimizer_step_post_hook(lambda optimizer, *args: steps.append(optimizer))
    try:
        trained(optimizers.SGD, {"lr": 0.1})
    finally:
        handle.remove()
    assert len(steps) == 6
    assert isinstance(steps[0], torch.optim.SGD)


STEP = """
import sys
from emi_bench.methods.ssd import SSD, SSDConfig
from emi_bench.draws import Draws
from emi_bench.problem import Problem
import torch

problem = Problem("digits", n_classes=10, n_tasks=5, image_size=8, memory=20, replay_batch=8, width=2)
method = SSD.build(SSDConfig(), problem, weight_seed=0, draws=Draws(0))
for _ in range(2):
    method.observe(torch.zeros(10, 3, 8, 8, dtype=torch.uint8), torch.arange(10) % 2)
method.end_task()
method.load_state_dict(method.state_dict())
print("torch._dynamo" in sys.modules)
"""


def test_a_step_does_not_import_the_compiler() -> None:
    told = subprocess.run([sys.executable, "-c", STEP], capture_output=True, text=True)
    assert told.stdout == "False\n", told.stderr
