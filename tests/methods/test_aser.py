"""ASER's retrieval and update on the worked examples, its step against a literal one, and its bookkeeping."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from emi_bench.draws import Draws
from emi_bench.memory import Memory
from emi_bench.methods.aser import ASER, ASERConfig, scores
from emi_bench.problem import Problem
from emi_bench.testing import ScriptedDraws
from tests.golden_files import golden
from tests.replay_toy import replay_problem, samples, toy_net

X, Y = samples()
HAND = golden("aser_hand")


class Line(nn.Module):
    """Images are points on a line: the feature is the first pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(1, 2)

    def features(self, x: Tensor) -> Tensor:
        return x[:, 0, 0, :1]

    def logits(self, features: Tensor) -> Tensor:
        return self.linear(features)

    def forward(self, x: Tensor) -> Tensor:
        return self.logits(self.features(x))


def on_line(*positions: float) -> Tensor:
    return torch.tensor(positions).view(-1, 1, 1, 1).expand(-1, 3, 2, 2).contiguous()


def line_aser(positions: list[float], labels: list[int], draws: Draws, *, replay: int = 3, **config: Any) -> ASER:
    problem = replay_problem(n_classes=2, memory=len(positions), replay_batch=replay)
    memory = Memory(len(positions), (3, 2, 2), dtype=torch.float32)
    memory.write(range(len(positions)), on_line(*positions), torch.tensor(labels))
    memory.n_seen = len(positions) + 1
    return ASER(ASERConfig(k=1, **config), problem, net=Line(), memory=memory, draws=draws).train()


def toy_aser(draws: Draws, *, memory: int = 6, replay: int = 3, **config: Any) -> ASER:
    net = toy_net(golden("trace_er")["initial_state"])
    store = Memory(memory, (3, 2, 2), dtype=torch.float32)
    problem = replay_problem(memory=memory, replay_batch=replay)
    return ASER(ASERConfig(**({"n_smp_cls": 1} | config)), problem, net=net, memory=store, draws=draws).train()


@pytest.mark.parametrize("kind", ["asvm", "asv", "neg_sv"])
def test_scores_of_the_worked_retrieval(kind: str) -> None:
    case = HAND["retrieval"]
    value = scores(torch.tensor(case["sv_coop"]), torch.tensor(case["sv_adv"]), kind)
    torch.testing.assert_close(value, torch.tensor(case[kind]))


@pytest.mark.parametrize(("kind", "expected"), [("asvm", [0, 1, 4]), ("asv", [0, 1, 4]), ("neg_sv", [0, 1, 4])])
@pytest.mark.parametrize("replay", [1, 2, 3, 64])
def test_worked_retrieval_returns_the_highest_first_and_ties_in_order(kind: str, expected: Any, replay: int) -> None:
    script = {"candidates.0": [[0, 1]], "candidates.1": [[3]], "coop.0": [[2]], "coop.1": [[4]]}
    if kind == "neg_sv":
        script = {k: v for k, v in script.items() if k.startswith("cand")}
    draws = ScriptedDraws(script)
    method = line_aser([0, 1, 0.4, 4, 3], [0, 0, 0, 1, 1], draws, replay=replay, score=kind, n_smp_cls=2)
    images, labels = method.retrieve(on_line(0.9), torch.tensor([1]))
    assert images[:, 0, 0, 0].tolist() == pytest.approx(expected[:replay])
    assert labels.tolist() == [0, 0, 1][:replay]
    assert not draws.left()


@pytest.mark.parametrize("kind", ["asvm", "asv"])
def test_empty_cooperative_set_counts_zero(kind: str) -> None:
    method = line_aser([0, 1, 4], [0, 0, 1], Draws(0), score=kind, n_smp_cls=2)
    images, _ = method.retrieve(on_line(0.9), torch.tensor([1]))  # every slot is a candidate
    assert images[:, 0, 0, 0].tolist() == [0, 1, 4]  # scores -adv: 1/6, 1/6, -1/3
    adv = torch.tensor([[-1 / 6, -1 / 6, 1 / 3]])
    assert torch.equal(scores(adv[:0], adv, kind), -adv[0])


def test_retrieval_is_random_until_more_was_seen_than_fits() -> None:
    method = line_aser([0, 1, 4], [0, 0, 1], ScriptedDraws({"replay": [[2, 0]]}), n_smp_cls=1)
    method.memory.n_seen = 3
    images, _ = method.retrieve(on_line(0.9), torch.tensor([1]))
    assert images[:, 0, 0, 0].tolist() == [4, 0]


@pytest.mark.parametrize(
    ("threshold", "held"),
    [(0.0, [0, 1, 0.2]), (0.3, [0, 5, 0.2])],
    ids=["refused without a minority", "a minority sample enters"],
)
def test_worked_update(threshold: float, held: list[float]) -> None:
    script = {"aser_threshold": [threshold], "eval.0": [[2]], "update_candidates": [[0, 1]]}
    draws = ScriptedDraws(script)
    method = line_aser([0, 1, 0.2], [0, 0, 0], draws, n_smp_cls=1)
    method.store(on_line(5), torch.tensor([1]))
    assert method.memory.images[:, 0, 0, 0].tolist() == pytest.approx(held)
    assert method.memory.label_list(range(3)) == [0, int(held[1] == 5), 0]
    assert method.memory.n_seen == 5
    assert not draws.left()


def test_filling_batch_competes_with_its_rest_only() -> None:
    draws = ScriptedDraws({"aser_threshold": [0.0], "eval.0": [[0]], "eval.1": [[1]], "update_candidates": [[2, 3]]})
    method = toy_aser(draws, memory=4, n_smp_cls=1)
    method.store(X[[0, 8, 1]], Y[[0, 8, 1]])
    assert (method.memory.filled, method.memory.n_seen) == (3, 3)
    method.store(X[[9, 16]], Y[[9, 16]])  # one fits, one competes
    assert (method.memory.filled, method.memory.n_seen) == (4, 5)
    assert not draws.left()


def test_step_is_one_mean_over_both_batches_after_two_forwards_for_the_statistics() -> None:
    method = toy_aser(ScriptedDraws({"replay": [[], [3, 1, 0]]}), memory=8)
    twin = copy.deepcopy(method.net)
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
    stored: list[int] = []
    for ids, replayed in (([7, 8, 0, 11], []), ([4, 2, 9, 1], [3, 1, 0])):
        chosen = [stored[s] for s in replayed]
        F.cross_entropy(twin(X[ids]), Y[ids]).backward()
        if chosen:
            F.cross_entropy(twin(X[chosen]), Y[chosen]).backward()
        optimizer.zero_grad()  # the source throws both gradients away
        both = chosen + ids
        ce = F.cross_entropy(twin(X[both]), Y[both])
        ce.backward()
        optimizer.step()
        losses = method.observe(X[ids], Y[ids])
        assert losses.keys() == {"ce"}
        assert losses["ce"].item() == pytest.approx(ce.item(), rel=1e-6)
        state = twin.state_dict()
        for name, value in method.net.state_dict().items():
            torch.testing.assert_close(value, state[name], msg=name)
        stored += ids


@pytest.mark.parametrize("kind", ["asvm", "asv", "neg_sv"])
@pytest.mark.parametrize("memory", [4, 7, 11])
def test_index_follows_the_memory_through_a_whole_stream(kind: str, memory: int) -> None:
    method = toy_aser(Draws(1), memory=memory, score=kind, n_smp_cls=2.5)
    rng = torch.Generator().manual_seed(0)
    order = torch.cat([torch.randperm(16, generator=rng), 16 + torch.randperm(16, generator=rng)])
    entered = 0
    for ids in order.split(4):
        before = method.memory.images.clone()
        losses = method.observe(X[ids], Y[ids])
        assert torch.isfinite(losses["ce"])
        entered += int((method.memory.images != before).flatten(1).any(1).sum())
        held = method.memory.label_list(range(method.memory.filled))
        assert held == method.memory.labels[: method.memory.filled].tolist()
        assert sum(method.memory.counts().values()) == method.memory.filled <= memory
        stored = [next(i for i in range(32) if torch.equal(image, X[i])) for image in method.memory.images[: len(held)]]
        assert len(set(stored)) == len(stored)  # as many left as entered: no sample is there twice
        assert Y[stored].tolist() == held
    assert method.memory.n_seen == 32
    if memory > 4:
        assert entered > memory  # the update did replace; four slots are soon all evaluation points


def test_candidates_of_the_update_count_by_the_product_and_balanced_sets_by_the_integer() -> None:
    asked: list[tuple[str, int]] = []

    class Listening(Draws):
        def pick(self, what: str, candidates: Any, k: int) -> Tensor:
            asked.append((what.partition(".")[0], k))
            return super().pick(what, candidates, k)

    method = toy_aser(Listening(0), memory=8, n_smp_cls=1.5)
    method.memory.write(range(8), X[::4], Y[::4])
    method.store(X[:2], Y[:2])
    assert set(asked) == {("eval", 1), ("update_candidates", 6)}


@pytest.mark.parametrize(
    ("dataset", "classes", "memory", "n"),
    [
        *[("cifar10", 10, 200, 9), ("cifar100", 100, 500, 2), ("tinyimagenet", 200, 1000, 3)],
        *[("digits", 10, 100, 5), ("digits", 10, 8, 1), ("mine", 10, 1000, 9), ("mine", 50, 1000, 2)],
    ],
)
def test_samples_per_class_are_resolved_by_data_set(dataset: str, classes: int, memory: int, n: int) -> None:
    problem = Problem(dataset, classes, 5, 32, memory)
    config = ASERConfig().resolve(problem)
    assert config.n_smp_cls == n
    assert config.resolve(problem) == config
    assert ASERConfig(n_smp_cls=1.5).resolve(problem).n_smp_cls == 1.5
