"""DER++ against three recorded runs (SGD, DER, AdamW), float64; what the memory keeps beside the images."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from emi_bench.draws import Draws
from emi_bench.memory import Memory
from emi_bench.methods.derpp import DERpp, DERppConfig
from emi_bench.testing import ScriptedDraws
from tests import toy_world as toy
from tests.golden_files import golden
from tests.methods.small_images import assert_replays_from_the_second_step, batch, small_problem
from tests.replay_toy import mirrored_and_dimmed, replay_problem, samples, toy_net

TRACES = golden("modern_derpp")["traces"]


@pytest.mark.parametrize("trace", TRACES, ids=lambda t: f"{t['optimizer']}-{t['alpha']}-{t['beta']}")
def test_recorded_run_is_replayed_in_float64(trace: dict[str, Any]) -> None:
    x, y = samples(torch.float64)
    net = toy_net(trace["initial_state"], torch.float64)
    script = {
        "replay_mse": [s["slots_mse"] for s in trace["steps"]],
        "replay_ce": [s["slots_ce"] for s in trace["steps"]],
        "reservoir": [s["reservoir"] for s in trace["steps"] if s["reservoir"]],
    }
    draws = ScriptedDraws(script)
    constants = {k: trace[k] for k in ("alpha", "beta", "optimizer", "lr", "weight_decay")}
    memory = Memory(6, (3, 2, 2), dtype=torch.float64, extra=(4,))
    method = DERpp(
        DERppConfig(**constants, source_bn=True),
        replay_problem(memory=6, replay_batch=5),
        net=net,
        memory=memory,
        draws=draws,
        view=mirrored_and_dimmed,
    )
    weights = {"ce_stream": 1.0, "mse": trace["alpha"], "ce_replay": trace["beta"]}
    for step in trace["steps"]:
        losses = method.observe(x[step["ids"]], y[step["ids"]])
        assert losses.keys() == step["terms"].keys()
        for name, value in step["terms"].items():
            assert losses[name].item() == pytest.approx(weights[name] * value, abs=1e-9), name
        assert sum(losses.values()).item() == pytest.approx(step["total"], abs=1e-9)
        assert torch.equal(memory.images[: memory.filled], x[step["memory_after"]])
        stored = torch.tensor(step["logits_after"], dtype=torch.float64)
        torch.testing.assert_close(memory.extra_at(torch.arange(memory.filled)), stored, atol=1e-9, rtol=0)
        toy.assert_state(net, step["state_after"], atol=1e-9)
    assert not draws.left()


def small_method(**config: Any) -> DERpp:
    return DERpp.build(DERppConfig(**config), small_problem(memory=6), weight_seed=1, draws=Draws(2))


def test_a_slot_holds_image_label_and_logits_of_one_row_and_keeps_them() -> None:
    """The row that a slot was last written from: its logits are those of the network before that step."""
    method = small_method(beta=0.5)
    held: dict[int, torch.Tensor] = {}
    for seed in range(8):
        x, y = batch([seed % 3, 1, 2, 0], seed)
        net = copy.deepcopy(method.net)
        said = net(method.pixels(x)).detach()
        before = method.memory.images.clone()
        method.observe(x, y)
        for slot in range(method.memory.filled):
            image = method.memory.images[slot]
            if seed == 0 or not torch.equal(image, before[slot]):
                (row,) = [i for i in range(4) if torch.equal(x[i], image)]
                assert method.memory.label_list([slot]) == [int(y[row])]
                held[slot] = said[row]
            torch.testing.assert_close(method.memory.extra_at(torch.tensor([slot]))[0], held[slot])


def test_a_term_of_weight_zero_costs_no_forward_unless_its_statistics_are_wanted() -> None:
    for config, forwards in [({}, 4), ({"alpha": 0.0}, 3), ({"alpha": 0.0, "source_bn": True}, 4)]:
        method = small_method(**config)
        for seed in range(2):  # the first step finds no memory: one forward
            method.observe(*batch([0, 1, 2, 0], seed))
        assert method.net.state_dict()["slow.bn1.num_batches_tracked"] == forwards


@pytest.mark.parametrize("memory", [0, 1, 3])
def test_a_memory_smaller_than_a_batch_serves(memory: int) -> None:
    method = DERpp.build(DERppConfig(), small_problem(memory=memory), weight_seed=1, draws=Draws(2))
    assert_replays_from_the_second_step(method, "mse")
