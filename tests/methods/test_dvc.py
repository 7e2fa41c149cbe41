"""DVC: the recorded retrieval on a tiny network, and what the method decides."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from emi_bench.draws import Draws
from emi_bench.losses.dvc import gradient_length
from emi_bench.memory import Memory
from emi_bench.methods.dvc import DVC, DVCConfig, _LastLayer
from emi_bench.nets.heads import q_net
from emi_bench.problem import Problem
from emi_bench.testing import ScriptedDraws
from tests.golden_files import golden
from tests.methods.small_images import assert_replays_from_the_second_step, batch, small_problem


def flip(images: Tensor, draws: Draws) -> Tensor:
    return images.flip(-1)


class TinyNet(nn.Module):
    """h = relu(W x + b + 0.5), logits = linear(h), Q-net with 5 hidden units; three classes"""

    def __init__(self, state: dict[str, Any], dtype: torch.dtype) -> None:
        super().__init__()
        self.f = nn.Linear(4, 3)
        self.linear = nn.Linear(3, 3)
        self.qnet = q_net(3, hidden=5)
        self.to(dtype)
        names = {"backbone.f": "f", "backbone.linear": "linear", "qnet.model.0": "qnet.0", "qnet.model.2": "qnet.2"}
        for theirs, mine in names.items():
            for part in ("weight", "bias"):
                value = torch.tensor(state[f"{theirs}.{part}"], dtype=dtype)
                self.get_submodule(mine).get_parameter(part).data = value

    def features(self, x: Tensor) -> Tensor:
        return torch.relu(self.f(x.flatten(1)) + 0.5)

    def logits(self, features: Tensor) -> Tensor:
        return self.linear(features)

    def forward(self, x: Tensor) -> Tensor:
        return self.logits(self.features(x))


def test_dual_forward_is_the_recorded_one() -> None:
    record = golden("dvc_losses_mgi")["dual_forward"]
    net = TinyNet(record["params"], torch.float64)
    x, xt = (torch.tensor(record[k], dtype=torch.float64) for k in ("x", "xt"))
    z, zt = net(torch.cat([x, xt])).chunk(2)
    for mine, name in [(z, "z"), (zt, "zt"), (net.qnet(torch.cat([z, zt], 1)), "zzt")]:
        torch.testing.assert_close(mine, torch.tensor(record[name], dtype=torch.float64), atol=1e-6, rtol=0)
    labels = torch.zeros(3, dtype=torch.int64)
    logits, _, length = _LastLayer(net)(torch.cat([x, xt]), labels)
    torch.testing.assert_close(logits, z)
    torch.testing.assert_close(
        length[:, None], torch.tensor(record["l1_feat_z"], dtype=torch.float64), atol=1e-6, rtol=0
    )


def recorded_method(**config: Any) -> tuple[DVC, dict[str, Any]]:
    record = golden("dvc_losses_mgi")["mgi"]
    net = TinyNet(record["params"], torch.float32)
    memory = Memory(5, (1, 2, 2), dtype=torch.float32)
    memory.update(torch.tensor(record["buffer_x"]), torch.tensor(record["buffer_y"]), Draws(0))
    problem = Problem("toy", n_classes=3, n_tasks=1, image_size=2, memory=5, batch=2, replay_batch=2)
    method = DVC(DVCConfig(dl_weight=2.0, **config), problem, net=net, memory=memory, draws=Draws(0), view=flip)
    return method, record


def stream_gradients(method: DVC, record: dict[str, Any]) -> float:
    x, y = torch.tensor(record["stream_x"]), torch.tensor(record["stream_y"])
    method.optimizer.zero_grad()
    losses = method.accumulate("stream", method.terms(x, flip(x, method.draws), y))
    return sum(v.item() for v in losses.values())


def test_recorded_retrieval_scores_and_picks() -> None:
    method, record = recorded_method()
    assert stream_gradients(method, record) == pytest.approx(record["stream_loss"], abs=2e-6)
    x, y = torch.tensor(record["buffer_x"]), torch.tensor(record["buffer_y"])
    before = gradient_length(*_LastLayer(method.net)(torch.cat([x, x.flip(-1)]), y))
    torch.testing.assert_close(before, torch.tensor(record["mgi_pre"]), atol=2e-5, rtol=0)
    score = method.interference(x, x.flip(-1), y)
    torch.testing.assert_close(score, torch.tensor(record["score"]), atol=2e-5, rtol=0)
    images, views, labels = method.retrieve()
    picks = record["selected_indices"]
    assert torch.equal(images, x[picks])
    assert torch.equal(views, x[picks].flip(-1))
    assert torch.equal(labels, y[picks])


def test_without_a_step_no_sample_is_interfered() -> None:
    method, record = recorded_method(lr=1e-30)
    stream_gradients(method, record)
    x, y = torch.tensor(record["buffer_x"]), torch.tensor(record["buffer_y"])
    assert torch.equal(method.interference(x, x.flip(-1), y), torch.zeros(5))


def small_method(draws: Draws | None = None, config: DVCConfig | None = None, **changes: Any) -> DVC:
    problem = small_problem(**({"memory": 20} | changes))
    method = DVC.build(config or DVCConfig(), problem, weight_seed=1, draws=draws or Draws(2))
    method.view = flip
    return method


def snapshot(method: DVC) -> tuple[dict[str, Tensor], dict[str, Tensor | None], dict[str, Tensor]]:
    parameters = {k: p.detach().clone() for k, p in method.net.named_parameters()}
    gradients = {k: None if p.grad is None else p.grad.clone() for k, p in method.net.named_parameters()}
    return parameters, gradients, {k: b.clone() for k, b in method.net.named_buffers()}


def test_retrieval_leaves_parameters_and_gradients_bit_for_bit_and_moves_the_bn_statistics_once() -> None:
    method = small_method()
    method.observe(*batch([0, 1, 1, 0]))
    x, y = method.prepare(*batch([1, 0, 0, 1], 1))
    method.optimizer.zero_grad()
    method.accumulate("stream", method.terms(x, x.flip(3), y))
    parameters, gradients, buffers = snapshot(method)
    assert any(g is not None and g.abs().sum() > 0 for g in gradients.values())
    method.retrieve()
    parameters_after, gradients_after, buffers_after = snapshot(method)
    assert all(torch.equal(parameters[k], parameters_after[k]) for k in parameters)
    for name, gradient in gradients.items():
        after = gradients_after[name]
        assert after is None if gradient is None else torch.equal(gradient, after)
    moved = {k.rsplit(".", 1)[1]: buffers_after[k] - buffers[k] for k in buffers}
    assert moved["running_mean"].abs().sum() > 0
    assert moved["num_batches_tracked"] == 1


def test_the_step_goes_down_the_sum_of_both_gradients() -> None:
    method = small_method()
    method.observe(*batch([0, 1, 1, 0]))
    parameters, _, buffers = snapshot(method)

    def gradients_of(images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        terms = method.terms(images, images.flip(3), labels)
        names, tensors = zip(*method.net.named_parameters(), strict=True)
        return dict(zip(names, torch.autograd.grad(terms.ce + terms.ent + terms.dl, tensors), strict=True))

    x, y = batch([1, 0, 0, 1], 1)
    stream = gradients_of(method.pixels(x), y)
    replay = gradients_of(method.pixels(method.memory.images[:4]), method.memory.labels[:4])
    for name, buffer in method.net.named_buffers():
        buffer.copy_(buffers[name])
    method.observe(x, y)  # all four stored images are replayed
    for name, p in method.net.named_parameters():
        expected = stream[name] + replay[name]
        torch.testing.assert_close(p.grad, expected, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(p.detach(), parameters[name] - 0.1 * p.grad)


def test_the_first_batch_trains_on_the_stream_alone_and_three_passes_move_the_statistics_later() -> None:
    method = small_method()
    before = snapshot(method)[0]
    losses = method.observe(*batch([0, 1, 1, 0]))
    assert losses.keys() == {"ce_stream", "ent_stream", "dl_stream"}
    assert not torch.equal(method.net.linear.weight, before["linear.weight"])
    assert method.net.state_dict()["slow.bn1.num_batches_tracked"] == 1
    losses = method.observe(*batch([0, 1, 1, 0], 1))
    assert losses.keys() == {f"{term}_{source}" for term in ("ce", "ent", "dl") for source in ("stream", "replay")}
    assert method.net.state_dict()["slow.bn1.num_batches_tracked"] == 4


def test_retrieval_takes_the_highest_scores_of_the_pool() -> None:
    draws = ScriptedDraws({"pool": [[], [0, 1, 2, 3], [7, 2, 5, 0, 3, 6]]})
    method = small_method(draws, replay_batch=3)
    method.observe(*batch([0, 1, 1, 0]))
    method.observe(*batch([2, 3, 1, 0], 1))
    x, y = method.prepare(*batch([4, 5, 4, 5], 2))
    method.optimizer.zero_grad()
    method.accumulate("stream", method.terms(x, x.flip(3), y))
    pool, labels = method.memory.at(torch.tensor([7, 2, 5, 0, 3, 6]))
    images = method.pixels(pool)
    score = method.interference(images, images.flip(3), labels)
    best = score.argsort(descending=True)[:3]
    picked, views, picked_labels = method.retrieve()
    assert torch.equal(picked, images[best])
    assert torch.equal(views, images[best].flip(3))
    assert torch.equal(picked_labels, labels[best])


def test_constants_follow_the_data_set() -> None:
    def resolved(dataset: str, n_classes: int, **config: Any) -> DVCConfig:
        problem = Problem(dataset, n_classes=n_classes, n_tasks=5, image_size=32, memory=200)
        once = DVCConfig(**config).resolve(problem)
        assert once.resolve(problem) == once
        return once

    weights = [resolved(*d).dl_weight for d in [("cifar10", 10), ("cifar100", 100), ("tinyimagenet", 200)]]
    assert weights == [2.0, 4.0, 4.0]
    assert [resolved(*d).dl_weight for d in [("digits", 10), ("own", 20)]] == [2.0, 4.0]
    assert resolved("cifar10", 10).pool == 320
    assert resolved("cifar10", 10, pool=50, dl_weight=0.0) == DVCConfig(
        pool=50, dl_weight=0.0, pooling="avg4", mean=(0, 0, 0), std=(1, 1, 1)
    )


def test_the_literal_pool_of_50_bounds_what_is_replayed() -> None:
    method = small_method(config=DVCConfig(pool=3))
    method.observe(*batch([0, 1, 1, 0]))
    method.observe(*batch([0, 1, 1, 0], 1))
    assert len(method.retrieve()[0]) == 3


@pytest.mark.parametrize("memory", [0, 1, 3])
def test_a_memory_smaller_than_a_batch_serves(memory: int) -> None:
    method = small_method(memory=memory)
    assert_replays_from_the_second_step(method, "ce_replay")
