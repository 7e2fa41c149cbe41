"""MKD: the distillation loss, a recorded run with two teachers (float64), the other bases, its constants."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from emi_bench.draws import Draws
from emi_bench.errors import UserError
from emi_bench.losses.distillation import distillation
from emi_bench.memory import Memory
from emi_bench.methods.er import ER, ERConfig
from emi_bench.methods.mkd import MKD, MKDConfig
from emi_bench.run.resolve import resolve
from emi_bench.testing import ScriptedDraws
from tests import toy_world as toy
from tests.golden_files import golden
from tests.methods.small_images import batch, small_problem
from tests.replay_toy import mirrored_and_dimmed, replay_problem, samples, toy_net

KD = golden("modern_ema_mkd")["kd"] + golden("modern_ccl_dc")["kl"]


@pytest.mark.parametrize("case", KD)
def test_distillation(case: dict[str, Any]) -> None:
    student = torch.tensor(case["student"], dtype=torch.float64, requires_grad=True)
    teacher = torch.tensor(case["teacher"], dtype=torch.float64, requires_grad=True)
    loss = distillation(student, teacher, case["temperature"])
    assert loss.item() == pytest.approx(case["loss"], abs=1e-9)
    loss.backward()
    expected = torch.tensor(case["grad_student"], dtype=torch.float64)
    torch.testing.assert_close(student.grad, expected, atol=1e-9, rtol=0)
    assert teacher.grad is None


def test_recorded_run_is_replayed_in_float64() -> None:
    trace = golden("modern_ema_mkd")["mkd"]
    x, y = samples(torch.float64)
    problem = replay_problem(memory=32, replay_batch=5)
    draws = ScriptedDraws({})
    inner = ER(
        ERConfig(joint=True),
        problem,
        net=toy_net(trace["initial_state"], torch.float64),
        memory=Memory(32, (3, 2, 2), dtype=torch.float64),
        draws=draws,
        view=mirrored_and_dimmed,
    )
    config = MKDConfig(alphas=trace["alphas"], correction_step=1, tau=trace["temperature"])
    method = MKD(config, problem, inner=inner)
    for teacher, expected in zip(method.teachers, trace["initial_teachers"], strict=True):
        toy.assert_state(teacher, expected, atol=1e-9)
    held: list[int] = []
    for step in trace["steps"]:
        draws.then({"replay": [[held.index(i) for i in step["replay_ids"]]]})
        losses = method.observe(x[step["ids"]], y[step["ids"]])
        if step["total"] is None:
            assert losses == {}
        else:
            assert sum(losses.values()).item() == pytest.approx(step["total"], abs=1e-9)
        toy.assert_state(method.net, step["state_after"], atol=1e-9)
        for teacher, expected in zip(method.teachers, step["teachers_after"], strict=True):
            toy.assert_state(teacher, expected, atol=1e-9)
        held += step["ids"]
    student = copy.deepcopy(method.net.state_dict())
    query = x[trace["query_ids"]]
    with method._aggregated(), method.evaluating():
        toy.assert_state(method.net, trace["state_aggregate"], atol=1e-9)
        logits = method.net(query)
    torch.testing.assert_close(logits, torch.tensor(trace["logits_aggregate"], dtype=torch.float64), atol=1e-9, rtol=0)
    assert torch.equal(method.predict(query), logits.argmax(1))
    assert all(torch.equal(v, student[k]) for k, v in method.net.state_dict().items())


def build(**config: Any) -> MKD:
    return MKD.build(MKDConfig(**config), small_problem(memory=6), weight_seed=1, draws=Draws(2))


def kd(method: MKD, images: torch.Tensor, raw: torch.Tensor) -> float:
    """From fresh copies: the forwards of a step move no statistics that it looks at in train mode."""
    net, teacher = copy.deepcopy(method.net), copy.deepcopy(method.teachers[0])
    z, z_raw, t = net(images), net(raw), teacher(images)
    return 5.5 * ((distillation(z, t, 4.0) + distillation(z_raw, t, 4.0)) / 2).item()


@pytest.mark.parametrize(("base", "parts"), [("er", 1), ("er_ace", 2), ("derpp", 3)])
def test_every_part_of_the_base_is_distilled_by_itself(base: Any, parts: int) -> None:
    method = build(base=base)
    method.observe(*batch([0, 1, 1, 0]))
    inner = method.inner
    rows: dict[str, Any] = {}
    plain = type(inner).rows

    def spy(*args: Any) -> Any:
        rows.update(plain(inner, *args))
        return rows

    inner.rows = spy  # type: ignore[method-assign]
    before = copy.deepcopy(method)
    losses = method.observe(*batch([2, 1, 1, 2], 1))
    assert len(rows) == parts
    assert losses["kd"].item() == pytest.approx(sum(kd(before, r.images, r.raw) for r in rows.values()), rel=1e-5)


def test_without_weight_it_is_the_joint_er() -> None:
    method = build(kd_lambda=0.0, optimizer="sgd")
    bare = ER.build(ERConfig(joint=True), small_problem(memory=6), weight_seed=1, draws=Draws(2))
    for seed in range(4):
        x, y = batch([0, 1, 2, 0], seed)
        method.observe(x, y)
        bare.observe(x, y)
    for (name, mine), theirs in zip(method.net.named_parameters(), bare.net.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, msg=name)


def test_a_standard_teacher_starts_as_a_copy_and_stays_one_of_a_still_student() -> None:
    method = build(correction="standard")
    for p, q in zip(method.teachers[0].parameters(), method.net.parameters(), strict=True):
        assert torch.equal(p, q)
    method.follow(40)
    for p, q in zip(method.teachers[0].parameters(), method.net.parameters(), strict=True):
        torch.testing.assert_close(p, q)
    slow = build()
    for step in range(200):
        slow.follow(4 * step)
    reached = slow.teachers[0].linear.weight.norm() / slow.net.linear.weight.norm()
    assert reached.item() == pytest.approx(0.87, abs=0.01)


def test_constants_of_the_base() -> None:
    spec = resolve("mkd", "cifar10", memory=200, config={"base": "derpp", "base_config": {"alpha": 0.5}})
    assert spec.config["base_config"]["alpha"] == 0.5
    again = resolve("mkd", "cifar10", memory=200, config=spec.config)
    assert again.run_id == spec.run_id
    config = {"base": "er_ace", "base_config": {"mask": "batch"}}
    modern = resolve("mkd", "cifar10", memory=200, config=config, protocol={"preset": "modern"})
    assert modern.config["optimizer"] == "adamw"
    assert (modern.config["base_config"]["view"], modern.config["base_config"]["mask"]) == ("partial", "batch")
    for wrong, told in [
        ({"base_config": {"mask": "set"}}, "not one of the base's own constants"),
        ({"base_config": {"lr": 0.1}}, "not one of the base's own constants"),
        ({"base_config": {"view": "some"}}, "view"),
        ({"base": "scr"}, "base"),
    ]:
        with pytest.raises(UserError, match=told):
            resolve("mkd", "cifar10", memory=200, config=wrong)


@pytest.mark.parametrize(
    ("base", "trained"), [("er", "adam 0.0005 0.0"), ("er_ace", "sgd 0.001 0.9"), ("derpp", "adam 0.0001 0.0")]
)
def test_it_trains_as_its_source_does_over_each_base(base: str, trained: str) -> None:
    def said(**config: Any) -> str:
        c = resolve("mkd", "cifar10", memory=200, config={"base": base} | config).config
        return f"{c['optimizer']} {c['lr']} {c['momentum']}"

    assert said() == trained
    assert said(lr=0.02).split()[::2] == trained.split()[::2]
    assert said(optimizer="adamw").split()[1:] == ["0.03" if base == "derpp" else "0.1", "0.0"]  # the base's


def test_the_loss_of_er_is_over_all_rows() -> None:
    method = build(kd_lambda=0.0)
    method.observe(*batch([0, 1, 1, 0]))
    net = copy.deepcopy(method.net)
    x, y = batch([0, 1, 1, 0], 1)
    stored = method.memory.images[:4].clone(), method.memory.labels[:4].clone()
    ce = method.observe(x, y)["ce_joint"]
    both = method.pixels(torch.cat([stored[0], x]))
    assert ce.item() == pytest.approx(F.cross_entropy(net(both), torch.cat([stored[1], y])).item(), rel=1e-5)
