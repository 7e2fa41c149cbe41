"""GSS's decisions: who is compared, when a batch is refused, which slots go and with what probability."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from emi_bench.draws import Draws
from emi_bench.memory import Memory
from emi_bench.methods import gss as module
from emi_bench.methods.gss import GSS, GSSConfig, replace_probability, slot_weights
from emi_bench.testing import ScriptedDraws
from tests.golden_files import golden
from tests.replay_toy import replay_problem, samples, toy_net

X, Y = samples()


def gss(draws: Draws, *, memory: int = 6, config: GSSConfig | None = None) -> GSS:
    net = toy_net(golden("trace_er")["initial_state"])
    store = Memory(memory, (3, 2, 2), dtype=torch.float32)
    problem = replay_problem(memory=memory, replay_batch=3)
    return GSS(config or GSSConfig(n_subsets=2, subset_size=2), problem, net=net, memory=store, draws=draws).train()


def full(draws: Draws, stored: list[int], scores: list[float]) -> GSS:
    method = gss(draws)
    method.memory.write(range(6), X[stored], Y[stored])
    method.scores.copy_(torch.tensor(scores))
    return method


def gradient(method: GSS, ids: list[int]) -> Tensor:
    """Of the mean CE in eval mode, by an ordinary backward."""
    method.net.eval()
    grads = torch.autograd.grad(F.cross_entropy(method.net(X[ids]), Y[ids]), list(method.net.parameters()))
    method.net.train()
    return torch.cat([g.flatten() for g in grads])


def best_cosine(method: GSS, subsets: list[list[int]], ids: list[int]) -> float:
    g = gradient(method, ids)
    return max(F.cosine_similarity(gradient(method, s), g, dim=0).item() for s in subsets)


def forced(monkeypatch: pytest.MonkeyPatch, scores: Callable[[int], list[float]]) -> None:
    """Scores from a list instead of from gradients: of a whole batch (one row) or of its samples."""
    monkeypatch.setattr(module, "max_cosine", lambda subsets, g: torch.tensor(scores(len(g))))


STORED = [1, 5, 9, 12, 17, 21]
FLAT_SCORES = [0.1, 0.5, -0.3, 0.9, 0.2, 0.0]


def test_first_samples_score_a_tenth_and_later_ones_by_their_own_gradient() -> None:
    draws = ScriptedDraws({"replay": [[], [0, 1]], "gss_subset": [[2, 0, 1, 3]]})
    method = gss(draws)
    method.observe(X[[0, 8, 16, 24]], Y[[0, 8, 16, 24]])
    assert method.scores.tolist() == pytest.approx([0.1] * 4 + [0.0] * 2)
    method.observe(X[[3, 11, 19, 27]], Y[[3, 11, 19, 27]])
    # after the step, in eval mode, against the subsets {16, 0} and {8, 24}
    expected = [best_cosine(method, [[16, 0], [8, 24]], [i]) for i in (3, 11)]
    assert method.scores.tolist() == pytest.approx([0.1] * 4 + expected, abs=1e-6)
    assert torch.equal(method.memory.images[4:], X[[3, 11]])  # the tail of the batch that fills the memory is dropped
    assert method.memory.n_seen == 0
    assert not draws.left()


def test_subsets_are_no_larger_and_no_more_than_what_is_stored() -> None:
    method = gss(ScriptedDraws({"gss_subset": [[2, 1, 0]] * 3}), config=GSSConfig(n_subsets=10, subset_size=10))
    method.memory.write(range(3), X[:3], Y[:3])
    with method.evaluating():
        assert len(method.subset_gradients()) == 1
        method.config = GSSConfig(n_subsets=10, subset_size=2)
        assert len(method.subset_gradients()) == 1  # one slot is left over
        method.config = GSSConfig(n_subsets=2, subset_size=1)
        rows = method.subset_gradients()
    torch.testing.assert_close(rows, torch.stack([gradient(method, [2]), gradient(method, [1])]), atol=1e-6, rtol=1e-4)


def test_batch_that_resembles_the_memory_is_refused() -> None:
    """The stored samples themselves: the cosine with their own subset is one."""
    method = full(ScriptedDraws({"gss_subset": [[0, 1, 2, 3, 4, 5]]}), STORED, FLAT_SCORES)
    before = method.memory.images.clone(), method.scores.clone()
    method.store(X[[1, 5]], Y[[1, 5]])  # asks for no slots: the script has none
    assert torch.equal(method.memory.images, before[0])
    assert torch.equal(method.scores, before[1])


@pytest.mark.parametrize("similarity", [0.0, 0.3])
def test_zero_similarity_is_refused_too(similarity: float, monkeypatch: pytest.MonkeyPatch) -> None:
    forced(monkeypatch, lambda n: [similarity])
    method = full(Draws(0), STORED, FLAT_SCORES)
    method.store(X[[2, 3]], Y[[2, 3]])
    assert torch.equal(method.memory.images, X[STORED])


def test_opposed_batch_replaces_pair_by_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    forced(monkeypatch, lambda n: [-0.5] if n == 1 else [-0.2, 0.4, -0.9, 0.0])
    script = {"gss_subset": [range(6)], "gss_slots": [[3, 1, 4, 0]], "gss_replace": [[0.70, 0.50, 0.0, 0.99]]}
    method = full(ScriptedDraws(script), STORED, FLAT_SCORES)
    ids = [2, 3, 4, 6]
    method.store(X[ids], Y[ids])
    # probabilities 1.9/2.7 = 0.704, 1.5/2.9 = 0.517, 1.2/1.3, 1.1/2.1 = 0.524: the last pair keeps its stored sample
    assert torch.equal(method.memory.images, X[[1, 3, 9, 2, 4, 21]])
    assert method.memory.label_list(range(6)) == Y[[1, 3, 9, 2, 4, 21]].tolist()
    assert method.scores.tolist() == pytest.approx([0.1, 0.4, -0.3, -0.2, -0.9, 0.0])


def test_real_gradients_of_an_opposed_batch_enter() -> None:
    """A class that the memory does not hold: its gradient opposes the memory's once the network knows the latter."""
    stored = [0, 1, 2, 8, 9, 10]
    script = {"gss_subset": [range(6)], "gss_slots": [[3, 1]], "gss_replace": [[0.0, 0.0]]}
    method = full(ScriptedDraws(script), stored, FLAT_SCORES)
    for _ in range(60):
        method.descend(F.cross_entropy(method.net(X[stored]), Y[stored]))
    ids = [17, 28]
    subsets = [[0, 1], [2, 8]]
    assert best_cosine(method, subsets, ids) < 0
    state = {k: v.clone() for k, v in method.net.state_dict().items()}
    method.store(X[ids], Y[ids])
    assert torch.equal(method.memory.images, X[[0, 28, 2, 17, 9, 10]])
    expected = [best_cosine(method, subsets, [i]) for i in ids]
    assert method.scores[[3, 1]].tolist() == pytest.approx(expected, abs=1e-5)
    assert all(torch.equal(v, state[k]) for k, v in method.net.state_dict().items())
    assert method.training


def test_weights_and_probability_of_the_worked_example() -> None:
    case = golden("gss_cosine")["buffer_sim_example"]
    weights = slot_weights(torch.tensor(case["scores"]), 3)
    assert weights.tolist() == pytest.approx(case["normalised"], abs=1e-6)
    assert weights.tolist() == pytest.approx([40 / 121, 80 / 121, 0, 120 / 121], abs=1e-6)
    assert replace_probability(torch.tensor(0.6), torch.tensor(-0.2)).item() == pytest.approx(2 / 3)


@pytest.mark.parametrize("scores", [[0.1] * 6, [0.1] * 5 + [0.9]])
def test_degenerate_weights_still_give_distinct_slots(scores: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    forced(monkeypatch, lambda n: [-0.5] if n == 1 else [-0.5] * n)
    method = full(Draws(3), STORED, scores)
    slots = Draws(0).weighted("", slot_weights(torch.tensor(scores), 4).tolist(), 4).tolist()
    assert len(set(slots)) == 4
    method.store(X[[2, 3, 4, 6]], Y[[2, 3, 4, 6]])
    assert method.memory.filled == 6


def test_memory_smaller_than_a_batch_offers_all_its_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    forced(monkeypatch, lambda n: [-0.5] if n == 1 else [-0.99] * n)
    method = gss(Draws(0), memory=2)
    for ids in ([0, 8, 16, 24], [1, 9, 17, 25], [2, 10, 18, 26]):
        method.observe(X[ids], Y[ids])
    assert method.memory.filled == 2
