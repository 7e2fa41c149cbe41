"""A-GEM's decisions: nothing in the first task, a projection only where stream and memory conflict."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

from emi_bench.draws import Draws
from emi_bench.memory import Memory
from emi_bench.methods.agem import AGEM
from emi_bench.methods.finetune import FineTune
from emi_bench.testing import ScriptedDraws
from tests.golden_files import golden
from tests.replay_toy import ToyNet, replay_problem, samples, toy_net


def toy() -> ToyNet:
    return toy_net(golden("trace_er")["initial_state"])


def agem(net: ToyNet, draws: Draws, **changes: int) -> AGEM:
    problem = replay_problem(replay_batch=5, **changes)
    return AGEM(
        AGEM.config_class(), problem, net=net, memory=Memory(6, (3, 2, 2), dtype=torch.float32), draws=draws
    ).train()


def gradient(net: ToyNet, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The gradient of the mean CE in train mode, flat; moves the BN statistics like the method's own forward."""
    grads = torch.autograd.grad(F.cross_entropy(net(x), y), list(net.parameters()))
    return torch.cat([g.flatten() for g in grads])


def flat(net: ToyNet) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def test_first_task_is_fine_tuning_and_retrieves_nothing() -> None:
    x, y = samples()
    mine = agem(toy(), ScriptedDraws({"reservoir": [[0, 5], [1, 7, 8, 2]]}))  # an unexpected question is an error
    other = FineTune(FineTune.config_class(), replay_problem(), net=toy(), memory=Memory(0, (3, 2, 2)), draws=Draws(0))
    for ids in ([7, 8, 0, 11], [4, 2, 9, 1], [5, 12, 13, 6]):
        assert mine.observe(x[ids], y[ids]).keys() == {"ce_stream"}
        other.observe(x[ids], y[ids])
        state = other.net.state_dict()
        assert all(torch.equal(v, state[k]) for k, v in mine.net.state_dict().items())
    assert mine.memory.filled == 6  # it is filled from the first batch on


@pytest.mark.parametrize("replayed", [[0, 1, 2, 3, 4], [3, 4], [0, 2]])
def test_step_follows_the_projected_gradient(replayed: list[int]) -> None:
    x, y = samples()
    net = toy()
    method = agem(net, ScriptedDraws({"replay": [replayed], "reservoir": [[-1, -1], [-1] * 4]}))
    for ids in ([7, 8, 0, 11], [4, 2, 9, 1]):
        method.observe(x[ids], y[ids])
    method.end_task()
    ids = [16, 17, 24, 30]
    twin = copy.deepcopy(net)
    g = gradient(twin, x[ids], y[ids])
    g_ref = gradient(twin, method.memory.images[replayed], method.memory.labels[replayed])
    dot = g @ g_ref
    assert dot < 0  # classes nobody has met pull against what is stored
    expected = g - (dot / (g_ref @ g_ref)) * g_ref
    start = flat(net)
    losses = method.observe(x[ids], y[ids])
    assert losses.keys() == {"ce_stream", "ce_replay"}
    torch.testing.assert_close(flat(net), start - 0.1 * expected, atol=1e-7, rtol=1e-5)
    state = twin.state_dict()  # two train-mode forwards, stream then memory
    assert all(torch.equal(v, state[k]) for k, v in net.state_dict().items() if k.startswith("bn.running"))


def test_gradient_without_conflict_is_untouched_bit_for_bit() -> None:
    """The memory holds the stream batch itself: its gradient cannot conflict."""
    x, y = samples()
    ids = [0, 9, 18, 27]
    net = toy()
    method = agem(net, ScriptedDraws({"replay": [[0, 1, 2, 3]], "reservoir": [[-1, -1]]}), memory=6)
    method.memory.write([0, 1, 2, 3], x[ids], y[ids])
    method.end_task()
    other = FineTune(
        FineTune.config_class(), replay_problem(), net=copy.deepcopy(net), memory=Memory(0, (3, 2, 2)), draws=Draws(0)
    ).train()
    method.observe(x[ids], y[ids])
    other.observe(x[ids], y[ids])
    assert torch.equal(flat(net), flat(other.net))


def test_memory_without_anything_stored_is_no_constraint() -> None:
    x, y = samples()
    method = agem(toy(), ScriptedDraws({"replay": [[]]}))
    method.end_task()
    assert method.observe(x[:4], y[:4]).keys() == {"ce_stream"}
