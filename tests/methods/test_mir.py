"""MIR against its recorded trace, and its retrieval alone."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

from emi_bench.draws import Draws
from emi_bench.memory import Memory
from emi_bench.methods.mir import MIR, MIRConfig
from emi_bench.nets.virtual import virtual_parameters
from emi_bench.problem import Problem
from emi_bench.testing import ScriptedDraws
from tests import toy_world
from tests.golden_files import golden
from tests.replay_toy import replay_problem, samples, toy_net

TRACE = golden("trace_mir")


class Watched(MIR):
    """Keeps what was replayed."""

    picked: torch.Tensor

    def most_interfered(self) -> tuple[torch.Tensor, torch.Tensor]:
        self.picked, labels = super().most_interfered()
        return self.picked, labels


def mir(draws: Draws, config: MIRConfig | None = None, *, replay: int = 2) -> Watched:
    memory = Memory(6, (3, 2, 2), dtype=torch.float32)
    net = toy_net(TRACE["initial_state"])
    problem = replay_problem(memory=6, replay_batch=replay)
    return Watched(config or MIRConfig(), problem, net=net, memory=memory, draws=draws).train()


def test_reference_trace_is_replayed() -> None:
    x, y = samples()
    draws = ScriptedDraws({})
    method = mir(draws, MIRConfig(pool=6))
    held: list[int] = []
    for step in TRACE["steps"]:
        ids, after = step["stream"], step["buffer_ids"]
        draws.then({"pool": [[held.index(i) for i in step["mir_subsample"]]]})
        fit = max(0, min(6 - len(held), len(ids)))
        if rest := [after.index(i) if i in after else -1 for i in ids[fit:]]:
            draws.then({"reservoir": [rest]})
        method.observe(x[ids], y[ids])
        assert torch.equal(method.picked, x[step["retrieved"][0]])  # the same samples, most interfered first
        if "state_before_buffer_update" in step:
            toy_world.assert_state(method.net, step["state_before_buffer_update"], atol=2e-5)
        held = [i for i in after if i is not None and i >= 0]
        assert method.memory.n_seen == step["n_seen"]
        assert torch.equal(method.memory.images[: method.memory.filled], x[held])
    toy_world.assert_state(method.net, TRACE["final_state"], atol=2e-5)
    assert not draws.left()


def test_virtual_parameters_are_those_of_the_trace() -> None:
    x, y = samples()
    step = next(s for s in TRACE["steps"] if s["mir_virtual_params"])
    first = TRACE["steps"][0]
    method = mir(ScriptedDraws({"pool": [[]]}), MIRConfig(pool=6))
    method.observe(x[first["stream"]], y[first["stream"]])
    method.net.zero_grad()
    F.cross_entropy(method.net(x[step["stream"]]), y[step["stream"]]).backward()
    ahead = virtual_parameters(method.net, 0.1)
    for name, value in step["mir_virtual_params"].items():
        torch.testing.assert_close(ahead[name], torch.tensor(value), atol=2e-6, rtol=1e-5)


def prepared(config: MIRConfig | None = None) -> tuple[Watched, torch.Tensor, torch.Tensor]:
    """A method with six stored samples whose parameters hold a stream gradient, and that stream batch."""
    x, y = samples()
    stored, ids = [1, 5, 9, 12, 17, 21], [2, 10, 25, 30]
    method = mir(Draws(0), config)
    method.memory.write(range(6), x[stored], y[stored])
    F.cross_entropy(method.net(x[ids]), y[ids]).backward()
    return method, method.memory.images, method.memory.labels


def test_most_interfered_of_the_pool_are_returned_in_order() -> None:
    method, images, labels = prepared(MIRConfig(virtual_lr=0.5))
    twin, ahead = copy.deepcopy(method.net), copy.deepcopy(method.net)
    for p, q in zip(ahead.parameters(), method.net.parameters(), strict=True):
        p.data -= 0.5 * q.grad
    with torch.no_grad():
        rise = F.cross_entropy(ahead(images), labels, reduction="none")
        rise -= F.cross_entropy(twin(images), labels, reduction="none")
    best = rise.argsort(descending=True)[:2]
    picked, picked_labels = method.most_interfered()
    assert torch.equal(picked, images[best])
    assert torch.equal(picked_labels, labels[best])
    assert rise[best].min() > rise.median()  # the choice is not a tie


def test_retrieval_moves_only_the_running_statistics_and_moves_them_once() -> None:
    method, images, _ = prepared()
    before = copy.deepcopy(method.net)
    gradients = [p.grad.clone() for p in method.net.parameters()]
    method.most_interfered()
    for p, g, old in zip(method.net.parameters(), gradients, before.parameters(), strict=True):
        assert torch.equal(p, old)
        assert torch.equal(p.grad, g)
    before(images)  # one train-mode forward of the pool at the present parameters
    assert torch.equal(method.net.bn.running_var, before.bn.running_var)
    assert torch.equal(method.net.bn.num_batches_tracked, before.bn.num_batches_tracked)


def test_without_a_gradient_nothing_interferes() -> None:
    method, images, labels = prepared()
    method.net.zero_grad(set_to_none=False)
    assert method.interference(images, labels).eq(0).all()


def test_eval_mode_scoring_leaves_the_statistics_alone() -> None:
    method, images, labels = prepared(MIRConfig(score_mode="eval"))
    before = copy.deepcopy(method.net.state_dict())
    assert method.interference(images, labels).ne(0).any()
    assert all(torch.equal(v, before[k]) for k, v in method.net.state_dict().items())
    assert method.net.training


def test_fresh_pool_is_drawn_for_every_repeated_step() -> None:
    x, y = samples()
    draws = ScriptedDraws({"pool": [[], [], [0, 1], [2, 3]], "reservoir": [[-1, -1]]})
    method = mir(draws, MIRConfig(mem_iters=2))
    method.observe(x[:4], y[:4])
    method.observe(x[4:8], y[4:8])
    assert not draws.left()


def test_pool_scales_with_the_replay_batch_unless_given() -> None:
    problem = Problem("cifar10", 10, 5, 32, 1000, replay_batch=64)
    resolved = MIRConfig().resolve(problem)
    assert (resolved.pool, resolved.virtual_lr) == (320, 0.1)
    assert resolved.resolve(problem) == resolved
    assert MIRConfig(pool=50).resolve(problem).pool == 50


@pytest.mark.parametrize("replay", [1, 6, 64])
def test_pool_no_larger_than_the_replay_batch_is_replayed_whole(replay: int) -> None:
    method, images, _ = prepared()
    object.__setattr__(method, "problem", replay_problem(replay_batch=replay))
    picked, _ = method.most_interfered()
    assert len(picked) == min(replay, len(images))
