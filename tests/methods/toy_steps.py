"""Replays a recorded step trace of the mutual-information family through a method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from emi_bench.methods.mutual_information import MutualInformation
from emi_bench.nets import Net, ResNet
from emi_bench.nets.dualnet import DualNet, mlp_head
from emi_bench.testing import ScriptedDraws
from tests import toy_world as toy

INSTRUMENTS = {"dmi_other_share"}  # recorded by EMI beside its losses


def plain_net() -> Net:
    net = Net(ResNet(2, image_size=8, pooling="global"), 4, proj=nn.Linear(16, 12)).double()
    net.load_state_dict(toy.initial_state("plain"))
    return net


def dual_net(kind: str = "dual", **options: Any) -> DualNet:
    head = mlp_head(16) if kind == "dual_mlp" else nn.Linear(16, 12)
    wiring = "same_level" if kind == "dual_same_level" else "chain"
    encoder = ResNet(2, image_size=8, pooling="global")
    net = DualNet(encoder, 4, proj=nn.Linear(16, 12), fast_net=wiring, **options)
    net.slow_proj = head
    net = net.double()
    net.load_state_dict(toy.initial_state(kind))
    return net


def script(trace: dict[str, Any]) -> dict[str, list[Any]]:
    """The trace's random choices by purpose."""
    answers: dict[str, list[Any]] = {}
    for step, plan in zip(trace["steps"], toy.PLAN, strict=True):
        draws = step["draws"]
        for what, key in (("replay", "replay_slots"), ("slice_stream",) * 2, ("slice_replay",) * 2):
            if key in draws:
                answers.setdefault(what, []).append(draws[key])
        for c, slots in draws.get("proto_slots", {}).items():
            answers.setdefault(f"prototypes.{c}", []).append(slots)
        if plan["reservoir_slots"]:
            answers.setdefault("reservoir", []).append(plan["reservoir_slots"])
    return answers


def eval_logits(net: nn.Module) -> torch.Tensor:
    ids = [i for i, _ in toy.TOY["test"]]
    net.eval()
    with torch.no_grad():
        logits = net(toy.images(ids))
    net.train()
    return logits


def grad_norms(net: nn.Module) -> dict[str, float]:
    """L2 of the gradient by first name part; a group without any gradient is absent."""
    squares: dict[str, float] = {}
    for name, p in net.named_parameters():
        if p.grad is not None:
            group = name.split(".")[0]
            squares[group] = squares.get(group, 0.0) + p.grad.square().sum().item()
    return {group: value**0.5 for group, value in squares.items()}


def assert_replays(
    trace: dict[str, Any],
    build: Callable[[ScriptedDraws], MutualInformation],
    after_step: Callable[[dict[str, Any]], None] = lambda step: None,
) -> None:
    """Losses, totals, gradient norms, parameters and evaluation logits equal the trace at every step."""
    draws = ScriptedDraws(script(trace))
    method = build(draws)
    net = method.net
    for step, (plan, x, y, last) in zip(trace["steps"], toy.batches(), strict=True):
        totals: list[float] = []
        descend = method.descend
        method.descend = lambda loss, into=totals, go=descend: (into.append(loss.item()), go(loss))[1]
        losses = method.observe(x, y)
        method.descend = descend

        assert losses.keys() - INSTRUMENTS == step["losses"].keys()
        for name, value in step["losses"].items():
            assert losses[name].item() == pytest.approx(value, rel=1e-5, abs=1e-9), (step["step"], name)
        assert totals == [pytest.approx(step["total"], rel=1e-5)]
        assert grad_norms(net) == pytest.approx(step["grad_norm"], rel=1e-5)
        for group, value in step["param_sq"].items():
            mine = sum(p.square().sum().item() for n, p in net.named_parameters() if n.split(".")[0] == group)
            assert mine == pytest.approx(value, rel=1e-6), (step["step"], group)
        if (name := f"after_step_{step['step']}") in trace["snapshots"]:
            toy.assert_state(net, trace["snapshots"][name])
        after_step(step)
        if last:
            toy.assert_state(net, trace["snapshots"][f"end_task_{plan['task']}"])
            expected = torch.tensor(trace["tasks"][plan["task"]]["eval_logits"], dtype=torch.float64)
            torch.testing.assert_close(eval_logits(net), expected, rtol=1e-5, atol=1e-6)
            method.end_task()
    assert not draws.left()
