"""ER as the modern papers have it: one forward, views, repeated steps; and the preset that stands for it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from emi_bench.data.views import crop_view, full_view, grey_crop_view, partial_view, randaugment_view
from emi_bench.draws import Draws
from emi_bench.memory import Memory
from emi_bench.methods.er import ER, ERConfig
from emi_bench.run.resolve import resolve
from emi_bench.testing import ScriptedDraws
from tests.golden_files import golden
from tests.methods.small_images import batch, small_problem
from tests.replay_toy import mirrored_and_dimmed, replay_problem, samples, toy_net


def test_joint_step_is_one_forward_of_replay_and_stream() -> None:
    x, y = samples(torch.float64)
    start = golden("trace_er")["initial_state"]
    draws = ScriptedDraws({"replay": [[], [], [2, 0], [3, 1, 0]], "reservoir": [[-1, -1]]})
    memory = Memory(6, (3, 2, 2), dtype=torch.float64)
    config = ERConfig(joint=True, mem_iters=2, optimizer="adamw", lr=5e-4, weight_decay=1e-4)
    method = ER(
        config,
        replay_problem(memory=6, replay_batch=5),
        net=toy_net(start, torch.float64),
        memory=memory,
        draws=draws,
        view=mirrored_and_dimmed,
    )
    twin = toy_net(start, torch.float64)
    optimizer = torch.optim.AdamW(twin.parameters(), lr=5e-4, weight_decay=1e-4)
    assert method.observe(x[[7, 8, 0, 11]], y[[7, 8, 0, 11]]) == {}  # nothing stored: no step
    for name, value in twin.state_dict().items():
        assert torch.equal(method.net.state_dict()[name], value)
    assert method.observe(x[[4, 2, 9, 1]], y[[4, 2, 9, 1]]).keys() == {"ce_joint"}
    for ids in ([0, 7, 4, 2, 9, 1], [11, 8, 7, 4, 2, 9, 1]):
        optimizer.zero_grad()
        F.cross_entropy(twin(mirrored_and_dimmed(x[ids], draws)), y[ids]).backward()
        optimizer.step()
    for name, value in twin.state_dict().items():
        torch.testing.assert_close(method.net.state_dict()[name], value, atol=1e-12, rtol=0, msg=name)
    assert not draws.left()


@pytest.mark.parametrize("view", ["full", "partial", "randaugment"])
def test_views_train_and_repeat_from_the_draws_alone(view: Any) -> None:
    states = []
    for noise in range(2):
        torch.manual_seed(noise)  # the global generator plays no part, and is left where it was
        before = torch.get_rng_state()
        method = ER.build(ERConfig(view=view), small_problem(width=8), weight_seed=1, draws=Draws(2))
        for seed in range(3):
            losses = method.observe(*batch([0, 1, 2, 3], seed))
            assert all(v.isfinite() for v in losses.values())
        assert torch.equal(torch.get_rng_state(), before)
        states.append(copy.deepcopy(method.net.state_dict()))
    assert all(torch.equal(states[0][k], states[1][k]) for k in states[0])


def images(n: int = 16) -> torch.Tensor:
    return torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(3)).repeat(n, 1, 1, 1)


def distinct(out: torch.Tensor) -> int:
    return len(torch.unique(out.flatten(1), dim=0))


def test_views_keep_range_and_differ_by_image_or_by_call() -> None:
    draws = Draws(5)
    for view in (full_view, crop_view, lambda x, d: grey_crop_view(x, d, grey_p=0.25, area=0.3)):
        out = view(images(), draws)
        assert out.shape == (16, 3, 32, 32)
        assert out.min() >= 0
        assert out.max() <= 1
        assert distinct(out) > 12
    assert {distinct(partial_view(images(), draws)) for _ in range(5)} == {2}  # one place, two mirrorings
    assert distinct(partial_view(images(), draws, per_image=True)) > 12
    assert {distinct(randaugment_view(images(), draws, n_ops=3, strength=15)) for _ in range(5)} == {1}
    many = torch.cat([randaugment_view(images(1), draws, n_ops=3, strength=15) for _ in range(20)])
    assert distinct(many) > 15


def test_randaugment_of_no_operation_rounds_to_eight_bits() -> None:
    out = randaugment_view(images(2), Draws(0), n_ops=0, strength=15)
    torch.testing.assert_close(out, (images(2) * 255.999).floor() / 255)
    # an image that came from 8 bits survives unchanged
    eight = torch.arange(256).float().repeat(3).view(1, 3, 16, 16) / 255
    assert torch.equal(randaugment_view(eight, Draws(0), n_ops=0, strength=15), eight)


def test_partial_view_moves_small_images_little() -> None:
    digit = torch.zeros(1, 3, 8, 8)
    digit[..., 3:5, 3:5] = 1
    for seed in range(10):
        assert partial_view(digit, Draws(seed)).sum() == digit.sum()


# --- the preset --------------------------------------------------------------------------------------------------


def modern(method: str, **config: Any) -> Any:
    return resolve(method, "cifar100", memory=2000, config=config, protocol={"preset": "modern"})


def test_preset_stands_for_plain_fields() -> None:
    spec = modern("er")
    plain = resolve(
        "er",
        "cifar100",
        memory=2000,
        config={"optimizer": "adamw", "lr": 5e-4, "weight_decay": 1e-4, "joint": True, "view": "full"},
        protocol={"width": 64, "reservoir": "textbook"},
    )
    assert spec.run_id == plain.run_id
    assert spec.protocol.preset == "modern"
    assert plain.protocol.preset == "emi"
    assert spec.changed == plain.changed  # so a command names plain fields
    assert "preset" not in spec.identity()["protocol"]


def test_what_is_given_goes_before_the_preset() -> None:
    assert modern("er", lr=0.01).config["lr"] == 0.01
    wide = resolve("er", "cifar10", memory=200, protocol={"preset": "modern", "width": 20})
    assert wide.protocol.width == 20
    assert modern("er_ace").config["view"] == modern("derpp").config["view"] == "partial"
    assert (modern("ocm").config["lr"], modern("onpro").config["lr"]) == (1e-3, 5e-4)
    assert modern("gdumb").config == resolve("gdumb", "cifar100", memory=2000).config


def test_er_keeps_its_ids() -> None:
    """Fields younger than 0.1.0 are not part of the id at their defaults."""
    identity = resolve("er", "cifar10", memory=200).identity()
    assert not {"joint", "view", "randaugment", "per_image", "ema"} & identity["config"].keys()
    wrapped = resolve("mkd", "cifar10", memory=200).identity()["config"]
    assert wrapped["base_config"] == {}  # so the base can grow without a new id of its wrappers
    assert resolve("er", "cifar10", memory=200, config={"view": "randaugment"}).config["randaugment"] == [3, 15]
    tiny = resolve("er", "tinyimagenet", memory=1000, config={"view": "randaugment"})
    assert tiny.config["randaugment"] == [1, 11]
    assert "joint" not in resolve("mir", "cifar10", memory=200).config
