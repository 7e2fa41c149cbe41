"""PCR: the recorded steps of the authors' program on a tiny network, and what the method decides."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from emi_bench.draws import Draws
from emi_bench.memory import Memory
from emi_bench.methods.pcr import PCR, PCRConfig
from emi_bench.nets.heads import CosineHead
from emi_bench.problem import Problem
from emi_bench.testing import ScriptedDraws
from tests.golden_files import golden
from tests.methods.small_images import assert_replays_from_the_second_step, batch, small_problem


def flip(images: Tensor, draws: Draws) -> Tensor:
    return images.flip(3)


class TinyNet(nn.Module):
    """tanh(linear 12->4) under a cosine head of 10 classes"""

    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Linear(12, 4)
        self.head = CosineHead(4, 10)

    def features(self, x: Tensor) -> Tensor:
        return torch.tanh(self.f(x.flatten(1)))

    def logits(self, features: Tensor) -> Tensor:
        return self.head(features)


def parameters_of(net: TinyNet) -> dict[str, Tensor]:
    return {"f.weight": net.f.weight, "f.bias": net.f.bias, "pcrLinear.L.weight": net.head.weight}


def tiny_problem(**changes: Any) -> Problem:
    values = {"dataset": "toy", "n_classes": 10, "n_tasks": 5, "image_size": 2, "memory": 5, "batch": 3}
    return Problem(**(values | {"replay_batch": 4} | changes))


def test_recorded_steps_are_replayed() -> None:
    record = golden("pcr_loss_step")["agent_steps"]
    net = TinyNet()
    for name, p in parameters_of(net).items():
        p.data = torch.tensor(record["init"][name])
    after = record["steps"][1]["buffer_labels_after"]
    assert after == [7, 7, 4, 7, 4]  # stored 4 7 4; then 7 4 fit, and the last 7 took slot 0
    draws = ScriptedDraws({"replay": [s["mem_idx"] for s in record["steps"]], "reservoir": [[0]]})
    memory = Memory(5, (3, 2, 2), dtype=torch.float32)
    method = PCR(PCRConfig(), tiny_problem(), net=net, memory=memory, draws=draws, view=flip)
    for step in record["steps"]:
        stored = torch.tensor(step["mem_x"])
        if len(stored):
            assert torch.equal(memory.images[step["mem_idx"]], stored)
        method.observe(torch.tensor(step["stream_x"]), torch.tensor(step["stream_y"]))
        for name, p in parameters_of(net).items():
            torch.testing.assert_close(p.data, torch.tensor(step["params_after"][name]), atol=2e-5, rtol=0)
        assert memory.label_list(range(memory.filled)) == step["buffer_labels_after"]
        assert memory.n_seen == step["n_seen_after"]
    assert not draws.left()


def small_method(**changes: Any) -> PCR:
    problem = small_problem(**changes)
    method = PCR.build(PCRConfig(), problem, weight_seed=1, draws=Draws(2))
    method.view = flip
    return method


def test_first_step_moves_only_the_bn_statistics() -> None:
    method = small_method()
    before = {k: v.clone() for k, v in method.net.state_dict().items()}
    assert method.observe(*batch([0, 1, 1, 0])) == {}
    for name, p in method.net.named_parameters():
        assert torch.equal(p, before[name]), name
    assert not torch.equal(method.net.state_dict()["slow.bn1.running_mean"], before["slow.bn1.running_mean"])
    assert method.net.state_dict()["slow.bn1.num_batches_tracked"] == 1
    assert method.memory.filled == 4


def test_each_step_forwards_twice() -> None:
    method = small_method()
    method.observe(*batch([0, 1, 1, 0]))
    method.observe(*batch([0, 1, 1, 0], 1))
    assert method.net.state_dict()["slow.bn1.num_batches_tracked"] == 3


def test_proxies_of_absent_classes_stay_bit_for_bit() -> None:
    method = small_method()
    method.observe(*batch([0, 1, 1, 0]))
    before = method.net.linear.weight.detach().clone()
    method.observe(*batch([2, 1, 1, 0], 1))
    moved = (method.net.linear.weight != before).any(1)
    assert moved.tolist() == [True, True, True, False, False, False]
    assert torch.equal(method.net.linear.weight.grad[3:], torch.zeros_like(before[3:]))


def test_predicts_only_seen_classes() -> None:
    method = small_method()
    images, _ = batch([0] * 60, 5)
    method.observe(*batch([4, 1, 1, 4]))
    with torch.no_grad():
        method.net.linear.weight[5] = method.embed(images).mean(0)  # the unseen class is everybody's favourite
    assert set(method.predict(images).tolist()) <= {1, 4}
    method.note_classes(torch.tensor([5]))
    assert set(method.predict(images).tolist()) == {5}


@pytest.mark.parametrize("memory", [0, 1, 3])
def test_a_memory_smaller_than_a_batch_serves(memory: int) -> None:
    method = small_method(memory=memory)
    assert_replays_from_the_second_step(method, "pcr")
