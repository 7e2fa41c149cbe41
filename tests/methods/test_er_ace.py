"""ER-ACE: the four masks, the cosine head and a recorded run, float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from emi_bench.draws import Draws
from emi_bench.losses.asymmetric import allowed_classes, masked_cross_entropy
from emi_bench.memory import Memory
from emi_bench.methods.er_ace import ERACE, ERACEConfig
from emi_bench.methods.finetune import FineTune
from emi_bench.nets.heads import CosineNet, cosine_scores
from emi_bench.testing import ScriptedDraws
from tests import toy_world as toy
from tests.golden_files import golden
from tests.methods.small_images import assert_replays_from_the_second_step, batch, small_problem
from tests.replay_toy import replay_problem, samples, toy_net

RECORDED = golden("modern_er_ace")


@pytest.mark.parametrize("case", RECORDED["loss_cases"], ids=lambda c: f"{c['name']}-{c['rule']}")
def test_stream_loss_of_every_mask(case: dict[str, Any]) -> None:
    logits = torch.tensor(case["logits"], dtype=torch.float64, requires_grad=True)
    allowed = allowed_classes(case["rule"], case["y"], case["seen_after"], logits.shape[1])
    assert [c for c, free in enumerate(allowed) if free] == case["allowed"]
    loss = masked_cross_entropy(logits, torch.tensor(case["y"]), torch.tensor(allowed))
    assert loss.item() == pytest.approx(case["loss"], abs=1e-9)
    (grad,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(grad, torch.tensor(case["grad_logits"], dtype=torch.float64), atol=1e-9, rtol=0)
    assert (grad[:, ~torch.tensor(allowed)] == 0).all()


def test_cosine_head() -> None:
    case = RECORDED["cosine_head"]
    x, w = (torch.tensor(case[k], dtype=torch.float64, requires_grad=True) for k in ("x", "weight"))
    scores = cosine_scores(x, w, 1 / case["scale"], case["eps"])
    torch.testing.assert_close(scores, torch.tensor(case["scores"], dtype=torch.float64), atol=1e-9, rtol=0)
    grads = torch.autograd.grad(F.cross_entropy(scores, torch.tensor(case["labels"])), [x, w])
    for grad, name in zip(grads, ("grad_x", "grad_weight"), strict=True):
        torch.testing.assert_close(grad, torch.tensor(case[name], dtype=torch.float64), atol=1e-9, rtol=0)
    method = ERACE.build(ERACEConfig(head="cosine"), small_problem(), weight_seed=0, draws=Draws(0))
    assert isinstance(method.net, CosineNet)
    assert (method.net.linear.temperature, method.net.linear.eps) == (0.1, 1e-5)


def test_recorded_run_is_replayed_in_float64() -> None:
    trace = RECORDED["trace"]
    x, y = samples(torch.float64)
    net = toy_net(trace["initial_state"], torch.float64)
    draws = ScriptedDraws({})
    memory = Memory(6, (3, 2, 2), dtype=torch.float64)
    method = ERACE(
        ERACEConfig(mask="aml"), replay_problem(memory=6, replay_batch=5), net=net, memory=memory, draws=draws
    )
    for step in trace["steps"]:
        before, after, ids = step["memory_before"], step["memory_after"], step["ids"]
        draws.then({"replay": [[before.index(i) for i in step["replay_ids"]]]})
        if len(before) == 4:  # overflow: set from the record below
            draws.then({"reservoir": [[-1, -1]]})
        elif len(before) == 6:
            draws.then({"reservoir": [[-1] * 4]})
        losses = method.observe(x[ids], y[ids])
        for name in ("ce_stream", "ce_replay"):
            assert (name in losses) == (step[name] is not None)
            assert step[name] is None or losses[name].item() == pytest.approx(step[name], abs=1e-9)
        assert sorted(method.seen) == step["seen_after"]
        toy.assert_state(net, step["state_after"], atol=1e-9)
        memory.write(range(len(after)), x[after], y[after])
    assert not draws.left()


def test_with_every_class_in_the_first_batch_and_no_memory_it_is_fine_tune() -> None:
    problem = small_problem(memory=0)
    mine = ERACE.build(ERACEConfig(), problem, weight_seed=3, draws=Draws(0))
    plain = FineTune.build(FineTune.config_class(), problem, weight_seed=3, draws=Draws(0))
    images, labels = batch([0, 1, 2, 3, 4, 5])
    mine.observe(images, labels)
    plain.observe(images, labels)
    for name, value in plain.net.state_dict().items():
        assert torch.equal(mine.net.state_dict()[name], value), name


@pytest.mark.parametrize("memory", [0, 1, 3])
def test_a_memory_smaller_than_a_batch_serves(memory: int) -> None:
    method = ERACE.build(ERACEConfig(), small_problem(memory=memory), weight_seed=1, draws=Draws(2))
    assert_replays_from_the_second_step(method, "ce_replay")
