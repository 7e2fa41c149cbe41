"""SSD's matching loss against the recorded values and gradients, and its invariants."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from emi_bench.losses import matching
from emi_bench.nets.convnet import ConvNet
from tests.golden_files import golden

TRACE = golden("ssd_matching")
MATCH = TRACE["match_loss"]


def convnet(state: dict[str, Any], dtype: torch.dtype = torch.float64) -> ConvNet:
    """The recorded helper: 8x8 images, width 4."""
    net = ConvNet(len(state["classifier.bias"]), image_size=8, width=4).to(dtype)
    net.load_state_dict({name: torch.tensor(value, dtype=dtype) for name, value in state.items()})
    return net


def images(name: str) -> Tensor:
    return torch.tensor(MATCH[name], dtype=torch.float64)


def test_distances_of_the_recorded_pair() -> None:
    x, y = (torch.tensor(TRACE["dist"][name]) for name in "xy")
    for metric in ("mse", "l1", "l1_mean", "cos"):
        assert matching.DISTANCES[metric](x, y).item() == pytest.approx(TRACE["dist"][metric])
    assert torch.allclose(matching.euclidean(x, y), torch.tensor(TRACE["dist"]["euclidean"]), atol=1e-9)


@pytest.mark.parametrize("case", golden("ssd_distances")["cases"], ids=["kernel", "wide", "tiny"])
@pytest.mark.parametrize("metric", ["mse", "l1", "l1_mean", "cos"])
def test_distances_of_inputs_that_are_not_square(case: dict[str, Any], metric: Any) -> None:
    x, y = (torch.tensor(case[name], dtype=torch.float64) for name in "xy")
    assert matching.DISTANCES[metric](x, y).item() == pytest.approx(case[metric], rel=1e-9)


@pytest.mark.parametrize("metric", ["mse", "l1", "l1_mean", "cos"])
@pytest.mark.parametrize("past", [None, "img_mem"])
def test_features_are_matched_by_the_metric_too(metric: Any, past: str | None) -> None:
    net = convnet(MATCH["convnet_params"])
    means = []
    for name in ("img_real", "img_syn"):
        features = net.features(images(name))
        means.append((nn.functional.normalize(features, dim=1) if past else features).mean(0))
    expected = matching.DISTANCES[metric](*(m[None] for m in means)).item()
    loss = matching.matching_loss(
        images("img_syn"),
        images("img_real"),
        images(past) if past else None,
        MATCH["lab"],
        net,
        match="feat",
        metric=metric,
        mem_weight=0,
    )
    assert loss.item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("case", MATCH["cases"], ids=lambda case: case["name"])
def test_recorded_losses_and_gradients(case: dict[str, Any]) -> None:
    syn = images("img_syn").requires_grad_()
    loss = matching.matching_loss(
        syn,
        images("img_real"),
        images("img_mem") if case["relation_used"] else None,
        MATCH["lab"],
        convnet(MATCH["convnet_params"]),
        match=case["match"],
        mem_weight=case["mem_weight"],
        mem_extra=bool(case["mem_extra"]),
    )
    assert loss.item() == pytest.approx(case["loss"], rel=1e-6)
    (grad,) = torch.autograd.grad(loss, syn)
    expected = torch.tensor(case["grad_img_syn"], dtype=torch.float64)
    torch.testing.assert_close(grad, expected, atol=1e-7, rtol=1e-6)
    assert grad.abs().sum().item() == pytest.approx(case["grad_abs_sum"], rel=1e-6)


def test_only_convolution_kernels_count() -> None:
    net = convnet(MATCH["convnet_params"])
    named = dict(net.named_parameters())
    label = torch.tensor(MATCH["lab"])

    def gradients(x: Tensor) -> list[Tensor]:
        loss = nn.functional.cross_entropy(net(x), label.expand(len(x)))
        return list(torch.autograd.grad(loss, list(named.values())))

    split = {}
    for name, real, syn in zip(named, gradients(images("img_real")), gradients(images("img_syn")), strict=True):
        split[name] = matching.squared_error(real, syn).item()
    for name, expected in MATCH["per_parameter_sq_grad_diff"].items():
        assert split[name] == pytest.approx(expected, rel=1e-6, abs=1e-20)
    assert all(split[name] < 1e-30 for name in split if "conv" in name and name.endswith("bias"))
    kernels = sum(value for name, value in split.items() if "conv" in name and name.endswith("weight"))
    loss = matching.matching_loss(images("img_syn"), images("img_real"), None, MATCH["lab"], net)
    assert loss.item() == pytest.approx(kernels)
    assert loss.item() == pytest.approx(MATCH["conv_only_grad_loss"], rel=1e-6)


def test_relation_term() -> None:
    net = convnet(MATCH["convnet_params"])
    syn, real, past = (
        nn.functional.normalize(net.features(images(name)), dim=1) for name in ("img_syn", "img_real", "img_mem")
    )
    assert matching.relation(syn, real, past).item() == pytest.approx(MATCH["relation_loss"], rel=1e-6)


def test_equal_sets_match_perfectly() -> None:
    syn = images("img_real").requires_grad_()
    net = convnet(MATCH["convnet_params"])
    loss = matching.matching_loss(syn, images("img_real"), images("img_mem"), MATCH["lab"], net)
    assert loss.item() < 1e-30
    (grad,) = torch.autograd.grad(loss, syn)
    assert grad.abs().max() < 1e-15


def test_gradient_is_that_of_finite_differences() -> None:
    net = convnet(MATCH["convnet_params"])
    real, past = images("img_real"), images("img_mem")
    syn = images("img_syn")[:, :, ::2].contiguous()
    syn = nn.functional.interpolate(syn, size=(8, 8)).requires_grad_()

    def loss(x: Tensor) -> Tensor:
        return matching.matching_loss(x, real, past, 1, net)

    (grad,) = torch.autograd.grad(loss(syn), syn)
    for index in [(0, 0, 3, 4), (1, 2, 7, 0), (1, 1, 2, 5)]:
        step = torch.zeros_like(syn)
        step[index] = 1e-6
        numeric = (loss(syn + step) - loss(syn - step)).item() / 2e-6
        assert grad[index].item() == pytest.approx(numeric, rel=1e-3, abs=1e-7)


def test_helper_is_left_without_gradients() -> None:
    net = convnet(MATCH["convnet_params"])
    syn = images("img_syn").requires_grad_()
    torch.autograd.grad(matching.matching_loss(syn, images("img_real"), None, 0, net), syn)
    assert all(p.grad is None for p in net.parameters())


@pytest.mark.parametrize("match", ["grad", "feat", "grad_feat"])
def test_order_inside_a_set_does_not_matter(match: Any) -> None:
    net = convnet(MATCH["convnet_params"])
    syn, real, past = (images(name) for name in ("img_syn", "img_real", "img_mem"))
    one = matching.matching_loss(syn, real, past, 2, net, match=match)
    other = matching.matching_loss(syn.flip(0), real.roll(1, 0), past.flip(0), 2, net, match=match)
    assert one.item() == pytest.approx(other.item(), rel=1e-9)


@pytest.mark.parametrize("metric", ["l1", "l1_mean", "cos"])
def test_other_metrics_tell_different_sets_from_equal_ones(metric: Any) -> None:
    net = convnet(MATCH["convnet_params"])
    syn, real = images("img_syn"), images("img_real")
    apart = matching.matching_loss(syn, real, None, 2, net, metric=metric).item()
    same = matching.matching_loss(real, real, None, 2, net, metric=metric).item()
    lengths = [g.flatten(1).norm(dim=1) for g in gradients_of(net, real)]
    bounded = sum((1e-6 / (n.square() + 1e-6)).sum().item() for n in lengths)  # a row of zeros counts 1
    assert same == pytest.approx(bounded if metric == "cos" else 0, abs=1e-9)
    assert apart > same + 1e-2


def gradients_of(net: ConvNet, x: Tensor) -> tuple[Tensor, ...]:
    return matching.conv_gradients(net, net.features(x), 2, create_graph=False)
