"""SCR: whole steps against a plain re-computation, the review, and the classifier."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from emi_bench.draws import Draws
from emi_bench.memory import Memory
from emi_bench.methods.scr import SCR, SCRConfig
from emi_bench.testing import ScriptedDraws
from tests.methods.small_images import assert_replays_from_the_second_step, batch, small_problem
from tests.replay_toy import replay_problem, samples


def dim(images: Tensor, draws: Draws) -> Tensor:
    return 0.9 * images + 0.05


class ToyEncoder(nn.Module):
    """Linear(12,6,no bias) BN ReLU, projection Linear(6,3) with unit output"""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(12, 6, bias=False)
        self.bn = nn.BatchNorm1d(6)
        self.head = nn.Linear(6, 3)
        for i, p in enumerate([self.fc1.weight, self.head.weight, self.head.bias]):
            entries = torch.arange(p.numel(), dtype=torch.float64).view(p.shape)
            p.data = (0.5 * torch.sin(1.7 * i + 0.9 * entries + 0.3)).float()

    def features(self, x: Tensor) -> Tensor:
        return torch.relu(self.bn(self.fc1(x.flatten(1))))

    def proj(self, features: Tensor) -> Tensor:
        return F.normalize(self.head(features), dim=1, eps=1e-12)


def plain_loss(z: Tensor, labels: list[int], temperature: float) -> Tensor:
    """The formula, one anchor after the other."""
    total = z.new_zeros(())
    for i in range(len(z)):
        others = [a for a in range(len(z)) if a != i]
        positives = [a for a in others if labels[a] == labels[i]]
        log_sum = torch.logsumexp(torch.stack([z[i] @ z[a] for a in others]) / temperature, 0)
        total = total - torch.stack([z[i] @ z[p] / temperature - log_sum for p in positives]).mean()
    return total / len(z)


def plain_step(net: ToyEncoder, x: Tensor, y: list[int], temperature: float, divide: float = 1.0) -> None:
    """One SGD step at 0.1 on raw images and their views, in two forwards."""
    z = torch.cat([net.proj(net.features(x)), net.proj(net.features(0.9 * x + 0.05))])
    parameters = list(net.parameters())
    for p, g in zip(parameters, torch.autograd.grad(plain_loss(z, y + y, temperature), parameters), strict=True):
        p.data -= 0.1 * g / divide


def assert_same_state(mine: nn.Module, expected: nn.Module) -> None:
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(mine.state_dict()[name], value, atol=2e-5, rtol=0, msg=lambda m, n=name: f"{n}: {m}")


def toy_method(net: nn.Module, draws: Draws, **config: Any) -> SCR:
    memory = Memory(6, (3, 2, 2), dtype=torch.float32)
    return SCR(SCRConfig(**config), replay_problem(replay_batch=3), net=net, memory=memory, draws=draws, view=dim)


def test_steps_and_review_equal_a_plain_re_computation() -> None:
    x, y = samples()
    stream = [[0, 9, 3, 12], [5, 10, 1, 8], [2, 11, 14, 6]]
    held = [[], [0, 9, 3, 12], [8, 9, 3, 12, 5, 10]]  # sample ids by slot, before each step
    replay = [[], [2, 0, 3], [5, 0, 4]]
    script = {"replay": replay, "reservoir": [[9, 0], [9, 9, 9, 9]], "review": [[4, 1, 0, 3, 5, 2]]}
    plain = ToyEncoder()
    net = copy.deepcopy(plain)
    draws = ScriptedDraws(script)
    method = toy_method(net, draws, temperature=0.1, review=True)
    for ids, slots, stored in zip(stream, replay, held, strict=True):
        losses = method.observe(x[ids], y[ids])
        if not slots:
            assert losses == {}
            assert_same_state(net, plain)
            continue
        both = [stored[s] for s in slots] + ids
        plain_step(plain, x[both], y[both].tolist(), 0.1)
        assert_same_state(net, plain)
    method.end_task()
    order = [[8, 9, 3, 12, 5, 10][s] for s in [4, 1, 0, 3, 5, 2]]
    for part in (order[:3], order[3:]):
        plain.features(x[part])  # the forward that nobody uses
        plain_step(plain, x[part], y[part].tolist(), 0.1, divide=10.0)
    assert_same_state(net, plain)
    assert not draws.left()


def test_review_leaves_out_an_incomplete_batch_and_is_off_by_default() -> None:
    x, y = samples()
    for review, forwards in [(True, 3), (False, 0)]:
        method = toy_method(ToyEncoder(), Draws(0), review=review)
        method.memory.update(x[[0, 9, 3, 12, 1]], y[[0, 9, 3, 12, 1]], method.draws)  # 5 stored, batches of 3
        method.end_task()
        assert int(method.net.bn.num_batches_tracked) == forwards
    method = toy_method(ToyEncoder(), Draws(0), review=True)
    method.memory.update(x[:2], y[:2], method.draws)
    before = copy.deepcopy(method.net)
    method.end_task()
    assert_same_state(method.net, before)
    assert method.tasks_done == 1


def small_method(**changes: Any) -> SCR:
    problem = small_problem(**changes)
    return SCR.build(SCRConfig(), problem, weight_seed=1, draws=Draws(2))


def test_first_step_leaves_the_network_untouched() -> None:
    method = small_method()
    before = {k: v.clone() for k, v in method.net.state_dict().items()}
    assert method.observe(*batch([0, 1, 1, 0])) == {}
    assert all(torch.equal(v, before[k]) for k, v in method.net.state_dict().items())
    assert method.memory.filled == 4
    assert method.observe(*batch([0, 1, 1, 0], 1)).keys() == {"supcon"}
    assert method.net.state_dict()["slow.bn1.num_batches_tracked"] == 2


def test_prediction_is_the_class_mean_with_the_largest_cosine() -> None:
    method = small_method(memory=40)
    for seed in range(6):
        method.observe(*batch([5, 2, 2, 4], seed))
    images, _ = batch([0] * 50, 99)
    method.eval()
    stored = F.normalize(method.embed(method.memory.images[: method.memory.filled]), dim=1)
    labels = method.memory.labels[: method.memory.filled]
    means = torch.stack([F.normalize(stored[labels == c].mean(0), dim=0) for c in (2, 4, 5)])
    cosine = F.normalize(method.embed(images), dim=1) @ means.T
    clear = cosine.topk(2).values.diff().abs().squeeze(1) > 1e-5
    assert clear.sum() > 40
    assert torch.equal(method.predict(images)[clear], torch.tensor([2, 4, 5])[cosine.argmax(1)][clear])


def test_prediction_follows_the_memory_and_changes_nothing() -> None:
    method = small_method()
    method.observe(*batch([0, 0, 0, 0]))
    images, _ = batch([0] * 20, 99)
    assert set(method.predict(images).tolist()) == {0}
    method.observe(*batch([3, 3, 3, 3], 1))
    before, generator = copy.deepcopy(method.net.state_dict()), method.draws.state()
    assert 3 in method.predict(images).tolist()
    assert method.training
    assert method.draws.state() == generator
    assert all(torch.equal(v, before[k]) for k, v in method.net.state_dict().items())


def test_a_seen_class_that_is_not_stored_is_still_a_candidate_and_survives_a_checkpoint() -> None:
    method = small_method(memory=1)
    for seed, labels in enumerate([[0, 1, 2, 3], [4, 4, 4, 4]]):
        method.observe(*batch(labels, seed))
    images, _ = batch([0] * 60, 99)
    other = small_method(memory=1)
    other.observe(*batch([5, 5]))
    assert set(other.predict(images).tolist()) == {5}
    other.load_state_dict(method.state_dict())
    predicted = method.predict(images)
    assert torch.equal(other.predict(images), predicted)
    assert set(predicted.tolist()) <= {0, 1, 2, 3, 4}
    assert len(method.predict(images[:1])) == 1


@pytest.mark.parametrize("memory", [0, 1, 3])
def test_a_memory_smaller_than_a_batch_serves(memory: int) -> None:
    method = small_method(memory=memory)
    assert_replays_from_the_second_step(method, "supcon")
    assert method.predict(batch([0] * 5)[0]).max() < 3
