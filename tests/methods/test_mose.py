"""MOSE: its losses, its network, a recorded run on a toy net (float64), its two predictions."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from emi_bench.draws import Draws
from emi_bench.errors import UserError
from emi_bench.losses.distillation import reverse_distillation
from emi_bench.losses.supcon import supcon_of_experts
from emi_bench.memory import Memory
from emi_bench.methods.mose import MOSE, MOSEConfig
from emi_bench.nets import ResNet
from emi_bench.nets.experts import ExpertNet
from emi_bench.run.resolve import resolve
from emi_bench.testing import ScriptedDraws
from tests.golden_files import golden
from tests.methods.small_images import batch, small_problem
from tests.replay_toy import replay_problem, samples

RECORDED = golden("modern_mose")


@pytest.mark.parametrize("case", RECORDED["supcon"])
def test_contrastive_loss(case: dict[str, Any]) -> None:
    z = torch.tensor(case["z"], dtype=torch.float64, requires_grad=True)
    labels, unit = torch.tensor(case["labels"]), F.normalize(z, dim=1)
    loss = supcon_of_experts(unit[None], labels, case["tau"])
    assert loss.item() == pytest.approx(case["loss"] or 0.0, abs=1e-9)
    both = supcon_of_experts(torch.stack([unit, unit.flip(0)]), labels, case["tau"])
    assert both.item() == pytest.approx((loss + supcon_of_experts(unit.flip(0)[None], labels, case["tau"])).item())
    if case["loss"] is not None:
        (grad,) = torch.autograd.grad(loss, z)
        torch.testing.assert_close(grad, torch.tensor(case["grad"], dtype=torch.float64), atol=1e-9, rtol=0)


# --- the network ---------------------------------------------------------------------------------------------------

OURS = {"feature_alignment_layer": "align", "attention_layers": "attention", "simclr": "proj"}
OURS |= {"final_addaption_layer": "final", "linear": "linear"}


def our_name(name: str) -> str:
    first, _, rest = name.partition(".")
    return f"{OURS[first]}.{rest.replace('.op.', '.')}" if first in OURS else f"slow.{name}"


def test_forward_of_the_network() -> None:
    recorded = RECORDED["forward"]
    net = ExpertNet(ResNet(2, image_size=16, pooling="global"), 5).double()
    state = net.state_dict()
    for p in recorded["parameters"]:
        if p["name"].startswith("moe_layer"):
            continue
        k = torch.arange(math.prod(p["shape"]), dtype=torch.float64)
        w = torch.sin(0.37 * k + 1.3 * p["idx"]).view(p["shape"])
        name = our_name(p["name"])
        assert state[name].shape == w.shape
        state[name] = 1 + 0.1 * w if p["offset_one"] else 0.3 * w
    net.load_state_dict(state)
    assert {our_name(p["name"]) for p in recorded["parameters"]} - {"slow.moe_layer.weight", "slow.moe_layer.bias"} == {
        name for name, _ in net.named_parameters()
    }
    b, c, i, j = torch.meshgrid(*(torch.arange(n, dtype=torch.float64) for n in (3, 3, 16, 16)), indexing="ij")
    x = torch.sin(0.1 * (i + 1) * (c + 1) + 0.07 * j + b)
    for mode in ("eval", "train"):
        net.train(mode == "train")
        for mine, expected in zip(net.experts(x), recorded[f"features_{mode}"], strict=True):
            torch.testing.assert_close(mine, torch.tensor(expected, dtype=torch.float64), atol=1e-9, rtol=0)
        if mode == "eval":
            assert torch.equal(net.features(x), net.experts(x)[-1])


@pytest.mark.parametrize("name", RECORDED["parameter_counts"])
def test_parameter_counts(name: str) -> None:
    nf, n_classes = (int(part.split("=")[1]) for part in name.split(","))
    net = ExpertNet(ResNet(nf, pooling="global"), n_classes)
    unused = n_classes * (4 * 8 * nf + 1)
    assert sum(p.numel() for p in net.parameters()) == RECORDED["parameter_counts"][name] - unused


# --- the step --------------------------------------------------------------------------------------------------------


class ToyExperts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.ModuleList([nn.Linear(12, 4), *(nn.Linear(4, 4) for _ in range(3))])
        self.proj = nn.ModuleList(nn.Linear(4, 3) for _ in range(4))
        self.linear = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))
        self.final = nn.Linear(4, 4)

    def experts(self, x: Tensor) -> Tensor:
        features = [x.flatten(1)]
        for layer in self.body:
            features.append(torch.tanh(layer(features[-1])))
        return torch.stack(features[1:])

    def logits(self, features: Tensor) -> Tensor:
        return torch.stack([head(f) for head, f in zip(self.linear, features, strict=True)])

    def projections(self, features: Tensor) -> Tensor:
        return torch.stack([head(f) for head, f in zip(self.proj, features, strict=True)])


def renamed(state: dict[str, Any]) -> dict[str, Tensor]:
    named = {k.replace("simclr", "proj").replace("final_addaption_layer", "final"): v for k, v in state.items()}
    return {k: torch.tensor(v, dtype=torch.float64) for k, v in named.items()}


def toy_method(draws: Draws) -> MOSE:
    net = ToyExperts().double()
    net.load_state_dict(renamed(RECORDED["trace"]["initial_state"]))
    memory = Memory(8, (3, 2, 2), dtype=torch.float64)
    problem = replay_problem(memory=8, replay_batch=16, image_size=8)
    view = lambda images, draws: 0.9 * images + 0.05  # noqa: E731
    return MOSE(MOSEConfig(normalize=False), problem, net=net, memory=memory, draws=draws, view=view)


def test_recorded_run_and_its_predictions_in_float64() -> None:
    trace = RECORDED["trace"]
    x, y = samples(torch.float64)
    draws = ScriptedDraws({})
    method = toy_method(draws)
    held: list[int] = []
    for step in trace["steps"]:
        if step["task"] > method.tasks_done:
            method.end_task()
        if step["total"] is not None:
            draws.then({"current": [[held.index(i) for i in step["current_ids"]]]})
        if step["old_asked"] is not None:
            draws.then({"old": [[held.index(i) for i in step["old_ids"]]]})
        if len(held) == 8:
            draws.then({"reservoir": [[-1] * 4]})
        losses = method.observe(x[step["ids"]], y[step["ids"]])
        assert (method.new_classes, method.seen) == (step["new_classes"], step["all_classes"])
        if step["total"] is None:
            assert losses == {}
        else:
            assert sum(losses.values()).item() == pytest.approx(step["total"], abs=1e-9)
            for mine, name in (("supcon", "ins"), ("ce", "ce"), ("distill", "distill")):
                assert losses[mine].item() == pytest.approx(step["terms"][name], abs=1e-9)
            for module, squares in step["grad_sq"].items():
                part = {"simclr": "proj", "final_addaption_layer": "final"}.get(module, module)
                grads = [p.grad for p in getattr(method.net, part).parameters()]
                assert sum((g**2).sum().item() for g in grads) == pytest.approx(squares, rel=1e-9)
        for name, value in renamed(step["state_after"]).items():
            torch.testing.assert_close(method.net.state_dict()[name], value, atol=1e-9, rtol=0, msg=name)
        held = step["memory_after"]
        method.memory.write(range(len(held)), x[held], y[held])
    assert not draws.left()

    ncm = trace["ncm"]
    method.end_task()
    query = x[ncm["query_ids"]]
    method.eval()
    distances, classes = method.distances(method.net.experts(query))
    order = [classes.tolist().index(c) for c in ncm["class_order"]]
    expected = torch.tensor(ncm["sq_dist"], dtype=torch.float64)
    torch.testing.assert_close(distances[:, :, order], expected, atol=1e-9, rtol=0)
    means, _ = method._means
    named = [[of_expert[str(c)] for c in ncm["class_order"]] for of_expert in ncm["class_means"]]
    recorded = torch.tensor(named, dtype=torch.float64)
    torch.testing.assert_close(means[:, order], recorded, atol=1e-9, rtol=0)
    said = method.predictions(query)
    assert said[""].tolist() == method.predict(query).tolist() == ncm["pred_mean"]
    assert said["expert 4"].tolist() == ncm["pred_last"]
    assert said.keys() == {"", "expert 1", "expert 2", "expert 3", "expert 4"}


def test_the_mirror_is_exact() -> None:
    case = RECORDED["mirror"]
    x, out = (torch.tensor(case[k], dtype=torch.float64) for k in ("x", "out"))
    four, labels = toy_method(Draws(0)).fourfold(x, torch.tensor([3, 1]))
    assert torch.equal(four[:4], out)
    torch.testing.assert_close(four[4:], 0.9 * out + 0.05)
    assert labels.tolist() == [3, 1] * 4


def build(**config: Any) -> MOSE:
    return MOSE.build(MOSEConfig(**config), small_problem(replay_batch=12, width=8), weight_seed=1, draws=Draws(2))


def test_judged_by_the_last_expert_or_by_linear_heads() -> None:
    images, _ = batch([0] * 30, 99)
    methods = [build(), build(judged="expert"), build(classifier="linear")]
    for method in methods:
        for seed in range(3):
            method.observe(*batch([0, 1, 2, 0], seed))
    mixture, expert, linear = (method.predictions(images) for method in methods)
    assert torch.equal(mixture["expert 4"], expert[""])
    assert torch.equal(mixture[""], expert["mixture"])
    with torch.no_grad(), methods[2].evaluating():
        net = methods[2].net
        features = net.experts(methods[2].pixels(images))
        logits = net.logits(features)
    for head, of_one, f in zip(net.linear, logits, features, strict=True):
        torch.testing.assert_close(of_one, head(f))  # all in one product
    assert torch.equal(linear[""], logits.mean(0).argmax(1))
    assert torch.equal(linear["expert 1"], logits[0].argmax(1))


def test_shallow_features_get_no_gradient_from_the_distillation() -> None:
    net = toy_method(Draws(0)).net
    x, _ = samples(torch.float64)
    features = net.experts(x)
    torch.autograd.backward(reverse_distillation(net.final(features[3]), features[:3]))
    assert net.body[3].weight.grad.abs().sum() > 0
    shallow = features[:3].detach().requires_grad_()
    loss = reverse_distillation(net.final(features[3].detach()), shallow)
    assert loss.requires_grad
    assert torch.autograd.grad(loss, shallow, allow_unused=True) == (None,)


def test_images_that_do_not_halve_three_times_are_refused() -> None:
    assert resolve("mose", "cifar10", memory=200).config["pooling"] == "global"
    with pytest.raises(UserError, match="divisible by 8"):
        MOSEConfig().resolve(small_problem(image_size=84))
