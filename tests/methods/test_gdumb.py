"""GDumb: nothing is learnt before a task ends, then everything from new weights; both recipes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from emi_bench.draws import Draws
from emi_bench.memory import Memory
from emi_bench.methods.gdumb import GDumb, GDumbConfig, restarting_cosine
from emi_bench.problem import Problem
from emi_bench.testing import ScriptedDraws
from tests.golden_files import golden
from tests.replay_toy import ToyNet, replay_problem, samples, toy_net

X, Y = samples()
START = golden("trace_er")["initial_state"]


class Restarting(ToyNet):
    """A network that knows its initial weights: what a recorded trace starts every training from."""

    def reset_parameters(self) -> None:
        self.load_state_dict(toy_net(START).state_dict())


def gdumb(draws: Draws, *, memory: int = 6, net: ToyNet | None = None, **config: Any) -> GDumb:
    store = Memory(memory, (3, 2, 2), dtype=torch.float32)
    values = {"epochs": 2} | config
    problem = replay_problem(memory=memory)
    return GDumb(GDumbConfig(**values), problem, net=net or Restarting(), memory=store, draws=draws).train()


def literal_training(memory: Memory, orders: list[list[int]], *, batch: int, lr: float = 0.1, clip: float) -> ToyNet:
    net = toy_net(START).train()
    for order in orders:
        for start in range(0, len(order) - batch + 1, batch):
            slots = order[start : start + batch]
            net.zero_grad()
            F.cross_entropy(net(memory.images[slots]), memory.labels[slots]).backward()
            norm = torch.cat([p.grad.flatten() for p in net.parameters()]).norm()
            for p in net.parameters():
                p.data -= lr * min(1.0, clip / (norm.item() + 1e-6)) * p.grad
    return net


def test_stream_moves_nothing_but_the_memory() -> None:
    method = gdumb(Draws(0))
    before = copy.deepcopy(method.net.state_dict())
    for ids in torch.arange(16).split(4):
        assert method.observe(X[ids], Y[ids]) == {}
    assert all(torch.equal(v, before[k]) for k, v in method.net.state_dict().items())
    assert method.memory.counts() == {0: 3, 1: 3}
    assert method.memory.n_seen == 16


@pytest.mark.parametrize("clip", [10.0, 0.2], ids=["free", "clipped"])
def test_training_is_the_reference_recipe(clip: float) -> None:
    orders = [[5, 0, 3, 2, 1, 4], [1, 2, 0, 5, 4, 3]]
    draws = ScriptedDraws({"gdumb_weights": [0], "gdumb_epoch": orders})
    method = gdumb(draws, clip=clip)  # six samples in batches of four: the last two of an epoch are left out
    ids = [0, 1, 2, 8, 9, 10]
    method.observe(X[ids], Y[ids])
    method.end_task()
    expected = literal_training(method.memory, orders, batch=4, clip=clip).state_dict()
    for name, value in method.net.state_dict().items():
        torch.testing.assert_close(value, expected[name], atol=1e-6, rtol=1e-5, msg=name)
    assert not draws.left()


def test_every_task_starts_anew() -> None:
    """The network after a task depends on the memory alone, not on what was trained before."""
    orders = [[0, 1, 2, 3, 4, 5]] * 2
    method = gdumb(ScriptedDraws({"gdumb_weights": [0, 0], "gdumb_epoch": orders * 2}), memory=6)
    ids = [0, 1, 2, 8, 9, 10]
    method.observe(X[ids], Y[ids])
    method.end_task()
    first = copy.deepcopy(method.net.state_dict())
    method.end_task()
    assert all(torch.equal(v, first[k]) for k, v in method.net.state_dict().items())


def test_new_weights_come_from_their_own_seed() -> None:
    problem = Problem("digits", 4, 2, 8, 0, width=2)
    states = []
    for seed in (1, 1, 2):
        method = GDumb.build(GDumbConfig(), problem, weight_seed=0, draws=ScriptedDraws({"gdumb_weights": [seed]}))
        start = {k: v.clone() for k, v in method.net.state_dict().items()}
        mark = torch.get_rng_state()
        method.end_task()  # nothing is stored: new weights, no training
        assert torch.equal(torch.get_rng_state(), mark)
        states.append(method.net.state_dict())
        assert not torch.equal(states[-1]["slow.conv1.weight"], start["slow.conv1.weight"])
    assert torch.equal(states[0]["linear.weight"], states[1]["linear.weight"])
    assert not torch.equal(states[0]["linear.weight"], states[2]["linear.weight"])
    assert states[0]["slow.bn1.running_var"].eq(1).all()


def test_memory_smaller_than_a_batch_is_one_batch() -> None:
    draws = ScriptedDraws({"gdumb_weights": [0], "gdumb_epoch": [[2, 0, 1], [1, 0, 2]]})
    method = gdumb(draws, memory=3)
    method.observe(X[[0, 8, 16]], Y[[0, 8, 16]])
    method.end_task()
    expected = literal_training(method.memory, [[2, 0, 1], [1, 0, 2]], batch=3, clip=10.0).state_dict()
    torch.testing.assert_close(method.net.linear.weight.detach(), expected["linear.weight"])


def test_schedule_matches_the_recorded_one() -> None:
    case = golden("gdumb_lr")
    mine = [restarting_cosine(e, case["maxlr"], case["minlr"]) for e in range(len(case["lrs"]))]
    assert mine == pytest.approx(case["lrs"], abs=1e-12)


def test_recipes_resolve_to_their_constants() -> None:
    cifar = Problem("cifar10", 10, 5, 32, 1000, mean=(0.5, 0.5, 0.5), std=(0.2, 0.2, 0.2))
    tiny = Problem("tinyimagenet", 200, 100, 64, 1000)
    reference = GDumbConfig().resolve(cifar)
    assert (reference.epochs, reference.batch, reference.schedule) == (30, 10, "constant")
    assert (reference.lr, reference.momentum, reference.cutmix, reference.augment) == (0.1, 0.0, 0.0, False)
    assert (reference.clip, reference.normalize) == (10.0, False)
    original = GDumbConfig(recipe="original").resolve(cifar)
    assert (original.epochs, original.batch, original.schedule) == (256, 16, "cosine_restarts")
    assert (original.lr, original.momentum, original.weight_decay) == (0.05, 0.9, 1e-6)
    assert (original.cutmix, original.augment, original.mean) == (0.5, True, (0.5, 0.5, 0.5))
    assert GDumbConfig(recipe="original").resolve(tiny).epochs == 128
    assert GDumbConfig(recipe="original", lr=0.1, epochs=3).resolve(cifar).lr == 0.1
    for config in (reference, original):
        assert config.resolve(cifar) == config
        assert GDumbConfig(**config.model_dump()).resolve(cifar) == config


def test_original_recipe_follows_its_schedule_and_mixes() -> None:
    """The rate of every step; a coin decides over every batch."""
    rates: list[float] = []

    class Noting(GDumb):
        def learn(self, x: torch.Tensor, labels: torch.Tensor) -> None:
            rates.append(self.optimizer.param_groups[0]["lr"])
            super().learn(x, labels)

    net = Restarting()
    problem = replay_problem(memory=4)
    config = GDumbConfig(recipe="original", epochs=5, batch=4, augment=False, normalize=False, momentum=0.0)
    script = {
        "gdumb_weights": [0],
        "gdumb_epoch": [[0, 1, 2, 3]] * 5,
        "cutmix": [True, False, False, False, False],
        "cutmix.lam": [0.0],
        "cutmix.centre": [1, 1],
        "cutmix.order": [[3, 2, 1, 0]],
    }
    memory = Memory(4, (3, 2, 2), dtype=torch.float32)
    draws = ScriptedDraws(script)
    method = Noting(config, problem, net=net, memory=memory, draws=draws).train()
    ids = [0, 8, 16, 24]
    method.observe(X[ids], Y[ids])
    method.end_task()
    assert rates == pytest.approx([restarting_cosine(e, 0.05, 5e-4) for e in range(5)])
    assert not draws.left()


def test_mixed_loss_weighs_both_labels_by_their_area() -> None:
    """A quarter of every image is another's; one step against the same by hand."""
    config = GDumbConfig(cutmix=1.0)
    script = {"cutmix": [True], "cutmix.lam": [0.0], "cutmix.centre": [0, 0], "cutmix.order": [[1, 2, 3, 0]]}
    draws = ScriptedDraws(script)
    method = GDumb(config, replay_problem(), net=toy_net(START), memory=Memory(0, (3, 2, 2)), draws=draws).train()
    twin = toy_net(START).train()
    ids, other = [0, 8, 16, 24], [8, 16, 24, 0]
    mixed = X[ids].clone()
    mixed[:, :, 0, 0] = X[other][:, :, 0, 0]
    logits = twin(mixed)
    (0.75 * F.cross_entropy(logits, Y[ids]) + 0.25 * F.cross_entropy(logits, Y[other])).backward()
    torch.optim.SGD(twin.parameters(), lr=0.1).step()
    method.learn(X[ids], Y[ids])
    torch.testing.assert_close(method.net.fc1.weight, twin.fc1.weight)
    assert not draws.left()
