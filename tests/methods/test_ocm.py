"""OCM against its recorded trace, and the invariants of its step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from emi_bench.draws import Draws
from emi_bench.errors import UserError
from emi_bench.methods import mutual_information
from emi_bench.methods.mutual_information import MutualInformationConfig
from emi_bench.methods.ocm import OCM
from emi_bench.problem import Problem
from tests import toy_world as toy
from tests.golden_files import golden
from tests.methods.toy_steps import assert_replays, plain_net

CONFIG = MutualInformationConfig(coefficient=0.5)
DIGITS = Problem("digits", n_classes=10, n_tasks=5, image_size=8, memory=30, replay_batch=8, width=2)


def toy_ocm(config: MutualInformationConfig = CONFIG, **changes: Any) -> OCM:
    problem = toy.problem(**changes)
    return OCM(config, problem, net=plain_net(), memory=toy.memory(), draws=Draws(0), view=toy.view)


def learn(method: OCM, steps: slice = slice(None)) -> list[dict[str, Tensor]]:
    losses = []
    for _, x, y, last in list(toy.batches())[steps]:
        losses.append(method.observe(x, y))
        if last:
            method.end_task()
    return losses


def digits_batch(n: int, classes: tuple[int, ...], seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 256, (n, 3, 8, 8), generator=generator, dtype=torch.uint8)
    return x, torch.tensor([classes[i % len(classes)] for i in range(n)])


def test_step_trace_is_replayed_in_float64() -> None:
    assert_replays(
        golden("steps/ocm"),
        lambda draws: OCM(CONFIG, toy.problem(), net=plain_net(), memory=toy.memory(), draws=draws, view=toy.view),
    )


def test_first_task_draws_no_replay_and_later_tasks_have_all_terms() -> None:
    losses = learn(toy_ocm())
    assert [set(terms) for terms in losses[:5]] == [{"ntx_n", "ce"}] * 5
    assert [set(terms) for terms in losses[5:]] == [{"ntx_n", "ntx_uni", "ntx_pre", "ce", "mse"}] * 6


def test_rows_forwarded_by_the_model_and_by_its_past(monkeypatch: pytest.MonkeyPatch) -> None:
    method = toy_ocm()
    rows: list[tuple[str, int]] = []
    method.net.slow.register_forward_pre_hook(lambda m, args: rows.append(("now", len(args[0]))))
    method.teacher.slow.register_forward_pre_hook(lambda m, args: rows.append(("past", len(args[0]))))
    learn(method, slice(0, 6))
    assert rows[:2] == [("now", 32 * 4), ("now", 4)]
    # 4 stream and 6 replayed images: the joint pass, the classifier's pass, and the past model's two
    assert rows[-4:] == [("now", 32 * 10), ("now", 6), ("past", 6), ("past", 16 * 6)]


@pytest.mark.parametrize(("seen", "expected"), [([3], 7), ([3, 1, 2], 21), (list(range(12)), 64)])
def test_replay_size_is_capped_by_the_classes_seen(seen: list[int], expected: int) -> None:
    method = toy_ocm(replay_batch=64)
    method.seen = seen
    assert method.replay_size() == expected
    uncapped = toy_ocm(CONFIG.model_copy(update={"replay_class_cap": None}), replay_batch=64)
    assert uncapped.replay_size() == 64


def test_the_cap_counts_the_classes_of_the_current_batch() -> None:
    method = OCM.build(MutualInformationConfig(replay_class_cap=2), DIGITS, weight_seed=0, draws=Draws(0))
    method.observe(*digits_batch(8, (4,)))
    method.end_task()
    sizes: list[int] = []
    pick = method.memory.pick
    method.memory.pick = lambda k, draws: (sizes.append(k), pick(k, draws))[1]
    method.observe(*digits_batch(4, (7, 9)))
    assert sizes == [6]


def test_mse_compares_the_old_classes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    method = toy_ocm()
    learn(method, slice(0, 5))
    assert method.old_classes == [0, 2]
    with torch.no_grad():
        method.net.linear.bias += torch.tensor([0.0, 50.0, 0.0, 70.0])  # classes not yet learnt
    (terms,) = learn(method, slice(5, 6))
    assert terms["mse"].item() == 0  # nothing else has changed since the task ended
    with torch.no_grad():
        method.net.linear.bias += torch.tensor([3.0, 0.0, 3.0, 0.0])
    (terms,) = learn(method, slice(6, 7))
    assert terms["mse"].item() == pytest.approx(9, abs=0.8)


def test_the_past_model_has_no_gradient_and_costs_the_model_none() -> None:
    plain, with_grad = toy_ocm(), toy_ocm()
    with_grad.teacher.requires_grad_(True)
    for method in (plain, with_grad):
        learn(method, slice(0, 7))
    assert all(p.grad is None for m in (plain, with_grad) for p in m.teacher.parameters())
    for a, b in zip(plain.net.parameters(), with_grad.net.parameters(), strict=True):
        assert torch.equal(a, b)
    owned = {id(p) for group in plain.optimizer.param_groups for p in group["params"]}
    assert owned == {id(p) for p in plain.net.parameters()}


def test_the_past_model_is_the_model_of_the_last_task_end_in_training_mode() -> None:
    method = toy_ocm()
    learn(method, slice(0, 5))
    at_task_end = {k: v.clone() for k, v in method.net.state_dict().items()}
    method.predict(toy.images([100]))
    assert method.teacher.training
    learn(method, slice(5, 7))
    for name, p in method.teacher.named_parameters():
        assert torch.equal(p, at_task_end[name])


def test_the_coefficient_is_one_in_the_first_task(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[float] = []

    def spy(p: Tensor, f: Tensor, start: int, coefficient: float) -> Tensor:
        used.append(coefficient)
        s = similarity(p, f, start, coefficient)
        assert s.abs().max() <= 2 * coefficient + 1e-9
        return s

    similarity = mutual_information.similarity
    monkeypatch.setattr(mutual_information, "similarity", spy)
    learn(toy_ocm(), slice(0, 6))
    assert used == [1.0] * 5 + [0.5, 0.5]


@pytest.mark.parametrize(("dataset", "coefficient"), [("cifar10", 0.5), ("cifar100", 1), ("digits", 1)])
def test_data_set_constants_are_resolved_once(dataset: str, coefficient: float) -> None:
    problem = Problem(dataset, 10, 5, 32, memory=10, mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6))
    config = MutualInformationConfig().resolve(problem)
    assert (config.coefficient, config.proj_dim, config.pooling) == (coefficient, 128, "global")
    assert (config.mean, config.std) == (problem.mean, problem.std)
    assert config.resolve(problem) == config


@pytest.mark.parametrize(("width", "proj_dim"), [(2, 12), (8, 51), (20, 128), (64, 128)])
def test_the_projection_leaves_room_for_the_feature_slice(width: int, proj_dim: int) -> None:
    problem = Problem("digits", 10, 5, 8, memory=10, width=width)
    assert MutualInformationConfig().resolve(problem).proj_dim == proj_dim
    with pytest.raises(UserError, match="proj_dim"):
        OCM.build(MutualInformationConfig(proj_dim=8 * width), problem, weight_seed=0, draws=Draws(0))


def test_recomputing_the_joint_forward_changes_nothing() -> None:
    plain, recomputed = toy_ocm(), toy_ocm(CONFIG.model_copy(update={"checkpoint_joint": True}))
    for a, b in zip(learn(plain, slice(2, 7)), learn(recomputed, slice(2, 7)), strict=True):
        assert a == b
    for (name, a), b in zip(plain.net.state_dict().items(), recomputed.net.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


def test_bfloat16_autocast_stays_close_to_float32() -> None:
    def run(enabled: bool) -> list[dict[str, Tensor]]:
        method = OCM.build(MutualInformationConfig(), DIGITS, weight_seed=0, draws=Draws(0))
        out = []
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            for i, classes in enumerate([(0, 1), (2, 3)]):
                out.append(method.observe(*digits_batch(10, classes, i)))
                method.end_task()
        return out

    for half, full in zip(run(True), run(False), strict=True):
        for name, value in full.items():
            assert half[name].dtype == torch.float32
            assert half[name].item() == pytest.approx(value.item(), rel=0.05, abs=0.05), name
