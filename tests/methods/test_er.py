"""ER against two recorded traces: the reference framework's toy run (float32) and our own toy world (float64)."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from emi_bench.data import get_info
from emi_bench.memory import Memory
from emi_bench.methods.base import Losses
from emi_bench.methods.er import ER, ERConfig
from emi_bench.methods.rehearsal import detached, total
from emi_bench.nets import Net, ResNet
from emi_bench.run.loop import build_method
from emi_bench.run.resolve import resolve
from emi_bench.testing import ScriptedDraws
from tests import toy_world as toy
from tests.golden_files import golden
from tests.replay_toy import replay_problem, samples, toy_net
from tests.synthetic import spec


def test_step_trace_is_replayed_in_float64() -> None:
    trace = golden("steps/er")
    net = Net(ResNet(2, image_size=8, pooling="global"), 4, proj=nn.Linear(16, 12)).double()
    net.load_state_dict(toy.initial_state("plain"))
    script = {
        "replay": [s["draws"].get("replay_slots", []) for s in trace["steps"]],
        "reservoir": [p["reservoir_slots"] for p in toy.PLAN if p["reservoir_slots"]],
    }
    method = ER(ER.config_class(), toy.problem(), net=net, memory=toy.memory(), draws=ScriptedDraws(script))
    for step, (plan, x, y, last) in zip(trace["steps"], toy.batches(), strict=True):
        losses = method.observe(x, y)
        assert losses.keys() == step["losses"].keys()
        for name, value in step["losses"].items():
            assert losses[name].item() == pytest.approx(value, rel=1e-5)
        assert method.memory.label_list(range(method.memory.filled)) == [
            c for c in plan["memory_labels_after"] if c is not None and c >= 0
        ]
        if (name := f"after_step_{step['step']}") in trace["snapshots"]:
            toy.assert_state(net, trace["snapshots"][name])
        if last:
            toy.assert_state(net, trace["snapshots"][f"end_task_{plan['task']}"])
            method.end_task()


def test_two_backwards_are_bit_for_bit_one_of_the_sum() -> None:
    two, one = (
        build_method(resolve("er", "digits", memory=20, protocol={"width": 8}), get_info("digits"), "cpu") for _ in "ab"
    )

    def of_the_sum(images: torch.Tensor, labels: torch.Tensor) -> Losses:
        rows = one.rows(images, labels)
        terms = one.terms(rows, {part: one.net(r.images) for part, r in rows.items()})
        one.descend(total(terms))
        return detached(terms)

    one.step = of_the_sum  # type: ignore[method-assign]
    rng = torch.Generator().manual_seed(0)
    for step in range(4):
        x = torch.randint(0, 256, (10, 3, 8, 8), generator=rng, dtype=torch.uint8)
        y = torch.arange(10) % 2 + 2 * (step // 2)
        assert two.observe(x, y) == one.observe(x, y)
    for name, value in two.net.state_dict().items():
        assert torch.equal(value, one.net.state_dict()[name]), name


def test_without_memory_samples_are_counted_all_the_same() -> None:
    for name in ("finetune", "offline"):
        method = build_method(spec(name), get_info("digits"), "cpu")
        method.observe(torch.zeros(10, 3, 8, 8, dtype=torch.uint8), torch.arange(10))
        assert (method.memory.n_seen, method.memory.filled) == (10, 0)


def test_adam_of_the_replay_family_has_torch_s_own_rates() -> None:
    method = build_method(resolve("er", "digits", memory=20, config={"optimizer": "adam"}), get_info("digits"), "cpu")
    assert method.optimizer.defaults["betas"] == (0.9, 0.999)


def test_reference_trace_is_replayed() -> None:
    trace = golden("trace_er")
    net = toy_net(trace["initial_state"])
    x, y = samples()
    memory = Memory(6, (3, 2, 2), dtype=torch.float32)
    draws = ScriptedDraws({})
    method = ER(ER.config_class(), replay_problem(memory=6, replay_batch=5), net=net, memory=memory, draws=draws)
    held: list[int] = []  # sample id by slot
    for step in trace["steps"]:
        ids = step["stream"]
        (retrieved,) = step["retrieved"]
        draws.then({"replay": [[held.index(i) for i in retrieved]]})
        after = step["buffer_ids"]
        fit = max(0, min(6 - len(held), len(ids)))
        rest = [after.index(i) if i in after else -1 for i in ids[fit:]]
        if rest:
            draws.then({"reservoir": [rest]})
        method.observe(x[ids], y[ids])
        if "state_before_buffer_update" in step:
            toy.assert_state(net, step["state_before_buffer_update"], atol=2e-5)
        held = [i for i in after if i is not None and i >= 0]
        assert method.memory.n_seen == step["n_seen"]
        assert torch.equal(memory.images[: memory.filled], x[held])  # floats survive unrounded
    toy.assert_state(net, trace["final_state"], atol=2e-5)
    assert not draws.left()


def test_repeated_steps_retrieve_afresh_and_store_once() -> None:
    x, y = samples()
    start = golden("trace_er")["initial_state"]
    script = {"replay": [[], [], [0, 1], [2, 3, 1]], "reservoir": [[-1, -1]]}
    draws = ScriptedDraws(script)
    memory = Memory(6, (3, 2, 2), dtype=torch.float32)
    method = ER(
        ERConfig(mem_iters=2), replay_problem(memory=6, replay_batch=5), net=toy_net(start), memory=memory, draws=draws
    )
    for ids in ([7, 8, 0, 11], [4, 2, 9, 1]):
        method.observe(x[ids], y[ids])
    assert (memory.filled, memory.n_seen) == (6, 8)
    assert not draws.left()

    twin = toy_net(start)
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
    stored = [7, 8, 0, 11]
    for ids, slots in (([7, 8, 0, 11], []), ([7, 8, 0, 11], []), ([4, 2, 9, 1], [0, 1]), ([4, 2, 9, 1], [2, 3, 1])):
        optimizer.zero_grad()
        F.cross_entropy(twin(x[ids]), y[ids]).backward()
        if replayed := [stored[s] for s in slots]:
            F.cross_entropy(twin(x[replayed]), y[replayed]).backward()
        optimizer.step()
    for name, value in method.net.state_dict().items():
        torch.testing.assert_close(value, twin.state_dict()[name], msg=name)
