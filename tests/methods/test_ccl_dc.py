"""CCL-DC: recorded steps of two peers over ER, ER-ACE and DER++ (float64), its predictions and invariants."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from emi_bench.draws import Draws
from emi_bench.memory import Memory
from emi_bench.methods.based import BASES
from emi_bench.methods.ccl_dc import CCLDC, CCLDCConfig
from emi_bench.nets.peers import Peers
from emi_bench.run.resolve import resolve
from emi_bench.testing import ScriptedDraws
from tests import toy_world as toy
from tests.golden_files import golden
from tests.methods.small_images import batch, small_problem
from tests.replay_toy import mirrored_and_dimmed, replay_problem, samples, toy_net

STORED = [0, 1, 2, 3, 4, 8, 9, 10, 11, 12]  # ids in memory; the record's own memory was scripted
CHAIN = (
    lambda x, draws: 0.8 * x.flip(3) + 0.1,
    lambda x, draws: 0.9 * x + 0.02 * torch.sin(3 * x),
    lambda x, draws: 0.85 * x + 0.05,
)


@pytest.mark.parametrize("trace", golden("modern_ccl_dc")["traces"], ids=lambda t: t["base"])
def test_recorded_steps_in_float64(trace: dict[str, Any]) -> None:
    x, y = samples(torch.float64)
    problem = replay_problem(memory=10, replay_batch=5)
    config = CCLDCConfig(base=trace["base"], optimizer="sgd", lr=0.1, base_config=trace["derpp"] or {}).resolve(problem)
    assert (config.kd_lambda, config.tau) == (trace["kd_lambda"], trace["temperature"])
    derpp = trace["base"] == "derpp"
    memory = Memory(10, (3, 2, 2), dtype=torch.float64, extra=(4,) if derpp else None)
    logits = torch.tensor([trace["replay_logits"][str(i)] for i in STORED], dtype=torch.float64) if derpp else None
    memory.update(x[STORED], y[STORED], Draws(0), extra=logits)
    draws = ScriptedDraws({})
    inner = BASES[trace["base"]](
        config.of_base(),
        problem,
        net=Peers(*(toy_net(s, torch.float64) for s in trace["initial_states"])),
        memory=memory,
        draws=draws,
        view=mirrored_and_dimmed,
    )
    method = CCLDC(config, problem, inner=inner)
    method.chain = CHAIN
    for step in trace["steps"]:
        wanted = {"replay_ids": "replay_mse" if derpp else "replay", "replay_ids_ce": "replay_ce"}
        draws.then({what: [[STORED.index(i) for i in step[k]]] for k, what in wanted.items() if step[k] is not None})
        draws.then({"reservoir": [[-1] * 4]})
        kept: dict[str, Tensor] = {}
        memory.update = lambda *a, extra=None, update=memory.update, kept=kept: (kept.update(z=extra), update(*a))
        losses = method.observe(x[step["ids"]], y[step["ids"]])
        del memory.update
        for peer in ("1", "2"):
            told = step[f"loss_peer{peer}"]
            total = sum(v for k, v in losses.items() if k.endswith(peer)).item()
            assert total == pytest.approx(told, abs=10.0 ** -step.get(f"loss_peer{peer}_decimals", 9))
        toy.assert_state(method.net.first, step["state1"], atol=1e-9)
        toy.assert_state(method.net.second, step["state2"], atol=1e-9)
        if derpp:
            expected = torch.tensor(step["stored_logits"], dtype=torch.float64)
            torch.testing.assert_close(kept["z"], expected, atol=1e-9, rtol=0)
    assert not draws.left()


def build(**config: Any) -> CCLDC:
    return CCLDC.build(CCLDCConfig(**config), small_problem(memory=6, width=8), weight_seed=1, draws=Draws(2))


def test_prediction_is_the_mean_of_two_peers_that_began_apart() -> None:
    method = build()
    assert not torch.equal(method.net.first.linear.weight, method.net.second.linear.weight)
    for seed in range(3):
        method.observe(*batch([0, 1, 2, 3], seed))
    images, _ = batch([0] * 40, 99)
    with torch.no_grad(), method.evaluating():
        one, two = (peer(method.pixels(images)) for peer in method.net.both)
    said = method.predictions(images)
    assert torch.equal(said[""], ((one + two) / 2).argmax(1))
    assert torch.equal(said["peer 1"], one.argmax(1))
    assert torch.equal(said["peer 2"], two.argmax(1))
    assert torch.equal(method.predict(images), said[""])
    assert method.embed(images).shape[1] == 2 * method.net.first.slow.out_dim


def test_equal_peers_that_see_one_view_teach_nothing() -> None:
    method = build(base="er_ace")
    method.net.second.load_state_dict(method.net.first.state_dict())
    method.chain = (lambda x, draws: x,) * 3
    for seed in range(3):
        losses = method.observe(*batch([0, 1, 2, 3], seed))
        assert losses["kd_1"].item() == pytest.approx(0, abs=1e-5)
    assert losses["base_1"] == losses["base_2"]


@pytest.mark.parametrize("base", ["er", "er_ace", "derpp"])
def test_an_empty_memory_leaves_the_stream_alone_or_nothing(base: Any) -> None:
    method = build(base=base)
    losses = method.observe(*batch([0, 1, 2, 3]))
    assert (losses == {}) == (base == "er")
    assert method.memory.filled == 4


def test_strength_of_the_chain_follows_the_data_set() -> None:
    assert resolve("ccl_dc", "cifar10", memory=200).config["randaugment"] == [3, 15]
    assert resolve("ccl_dc", "tinyimagenet", memory=1000).config["randaugment"] == [1, 11]


@pytest.mark.parametrize("base", BASES)
def test_it_trains_as_its_source_does(base: str) -> None:
    c = resolve("ccl_dc", "cifar10", memory=200, config={"base": base}).config
    assert (c["optimizer"], c["lr"], c["weight_decay"]) == ("adamw", 5e-4, 1e-4)


def test_operations_are_drawn_once_for_all_rows_unless_asked_for_each() -> None:
    x = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(0)).expand(30, -1, -1, -1)
    for each in (False, True):
        method = build(per_image=each)
        harder = [method.chain[1](x, Draws(seed)) for seed in range(5)]
        kinds = [len(torch.unique(out.flatten(1), dim=0)) for out in harder]
        assert (max(kinds) == 1) != each
    assert "per_image" not in resolve("ccl_dc", "cifar10", memory=200).identity()["config"]
