"""GSA: its weighting block against recorded numbers (float64), its batches, views and invariants."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from emi_bench.draws import Draws
from emi_bench.losses.self_adaptation import GradientBalance
from emi_bench.methods.gsa import GSA, GSAConfig, balanced_counts
from emi_bench.testing import ScriptedDraws
from tests.golden_files import golden
from tests.methods.small_images import batch, small_problem

RECORDED = golden("modern_gsa")


def test_recorded_weights_and_losses_in_float64() -> None:
    balance, twin = GradientBalance(6), GradientBalance(6)
    for step in RECORDED["steps"]:
        logits = torch.tensor(step["logits"], dtype=torch.float64, requires_grad=True)
        columns, labels = torch.arange(logits.shape[1]), torch.tensor(step["labels"])
        loss = balance(logits, labels, columns, warm=step["batch_idx"] >= 5)
        assert loss.item() == pytest.approx(step["loss_n"], abs=1e-9)
        weights = twin.weights(logits.detach().softmax(1), labels, columns, warm=step["batch_idx"] >= 5)
        assert weights.tolist() == pytest.approx(step["weight"], abs=1e-9)
        assert weights[labels].tolist() == pytest.approx(step["sample_weight"], abs=1e-9)
        (grad,) = torch.autograd.grad(loss, logits)
        torch.testing.assert_close(grad, torch.tensor(step["grad_logits"], dtype=torch.float64), atol=1e-9, rtol=0)
        for name in ("cnt", "pos", "neg"):
            sums = torch.tensor(step[name], dtype=torch.float64)
            torch.testing.assert_close(getattr(balance, name)[: len(sums)], sums, atol=1e-9, rtol=0)


@pytest.mark.parametrize("case", RECORDED["counts"])
def test_counts_are_cut_down(case: dict[str, int]) -> None:
    counts = balanced_counts(case["new"], case["all"], case["replay"])
    assert counts == (case["from_memory"], case["from_current"])


def test_weights_are_one_where_all_ratios_are_and_two_where_nothing_pushed_down() -> None:
    balance = GradientBalance(3)
    columns, place = torch.arange(3), torch.tensor([0, 1, 1])
    logits = torch.randn(3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert balance(logits, place, columns, warm=False).item() == pytest.approx(F.cross_entropy(logits, place).item())
    alone = GradientBalance(3)
    p = torch.zeros(2, 3, dtype=torch.float64)
    p[:, 0] = 0.5
    assert alone.weights(p, torch.tensor([0, 0]), columns, warm=True)[0] == 2
    assert alone.cnt.sum() == 2
    order = [2, 0, 1]
    again = GradientBalance(3)
    shuffled = again(logits[order], place[order], columns, warm=True)
    assert shuffled.item() == pytest.approx(GradientBalance(3)(logits, place, columns, warm=True).item())


class Spy:
    """A view that notes what it is given; the network's other inputs are its mirror images."""

    def __init__(self) -> None:
        self.given: list[torch.Tensor] = []

    def __call__(self, images: torch.Tensor, draws: Draws) -> torch.Tensor:
        self.given.append(images)
        return 0.9 * images


def build(view: Any = None, **config: Any) -> GSA:
    problem = small_problem(memory=12, replay_batch=12)
    config = {"normalize": False} | config
    method = GSA.build(GSAConfig(**config), problem, weight_seed=1, draws=Draws(2))
    method.view = view or method.view
    return method


def test_batches_of_two_tasks() -> None:
    view = Spy()
    method = build(view)
    assert method.config.n_current == 2  # half of 12, without 4
    first, _ = batch([0, 1, 1, 0])
    assert method.observe(*batch([0, 1, 1, 0])).keys() == {"ce_new"}  # nothing stored
    assert [len(g) for g in view.given] == [4]
    method.observe(*batch([0, 1, 0, 1], 1))
    assert [len(g) for g in view.given[1:]] == [6, 6]  # [x; 2 stored], the same again
    assert torch.equal(view.given[1], view.given[2])
    method.end_task()
    view.given.clear()
    method.draws = ScriptedDraws({"current": [[], []], "old": [[0, 1, 2]] * 2}, fallback=Draws(3))
    x, y = batch([2, 2, 2, 2], 2)
    assert method.observe(x, y).keys() == {"ce_new", "ce_balanced"}
    new, balanced = view.given
    assert len(new) == 4
    assert len(balanced) == 3 + 4  # int(12 / 3) of the new rows
    assert torch.equal(balanced[:3], method.pixels(first[:3]))
    assert torch.equal(balanced[3:], method.pixels(x))


def test_only_the_columns_of_the_task_are_in_the_new_term_and_only_seen_classes_predicted() -> None:
    method = build()
    method.observe(*batch([0, 1, 1, 0]))
    method.end_task()
    method.observe(*batch([4, 5, 5, 4], 1))
    assert method.new_classes == [4, 5]
    net = method.net
    with torch.no_grad():
        net.linear.bias[[2, 3]] += 1e4  # never seen
    assert set(method.predict(batch([0] * 30, 9)[0]).tolist()) <= {0, 1, 4, 5}
    state = copy.deepcopy(method.state_dict())
    losses = []
    for shift in (0.0, 1e3):  # of the classes of the first task
        method.load_state_dict(copy.deepcopy(state))
        with torch.no_grad():
            net.linear.bias[[0, 1]] += shift
        losses.append(method.observe(*batch([4, 5, 4, 5], 2)))
    assert losses[0]["ce_new"].item() == pytest.approx(losses[1]["ce_new"].item(), rel=1e-5)
    assert losses[1]["ce_balanced"] > losses[0]["ce_balanced"] + 10


@pytest.mark.parametrize(("views", "calls"), [("port", 2), ("source", 5)])
def test_views_of_the_ports_and_of_the_source(views: Any, calls: int) -> None:
    view = Spy()
    method = build(view, views=views)
    method.memory.update(*batch([0, 1, 0, 1], 5), method.draws)
    method.observe(*batch([0, 1, 1, 0]))
    assert len(view.given) == calls
