"""The reduced ResNet-18 against recorded forwards, counts and sizes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from emi_bench.nets import Net, ResNet
from tests.golden_files import golden


def formula_net(image_size: int) -> Net:
    """Weights by formula: entry i of parameter l is 0.1 sin(1.7 l + 0.9 i + 0.3); BN affine untouched."""
    net = Net(ResNet(20, image_size=image_size), 10)
    with torch.no_grad():
        for number, (name, p) in enumerate(net.named_parameters()):
            if p.dim() > 1 or name == "linear.bias":
                i = torch.arange(p.numel(), dtype=torch.float64)
                p.copy_((0.1 * torch.sin(1.7 * number + 0.9 * i + 0.3)).view_as(p))
    return net


def formula_input(side: int) -> torch.Tensor:
    i = torch.arange(2 * 3 * side * side, dtype=torch.float64)
    return (0.5 + 0.5 * torch.sin(0.013 * i + 0.2)).float().view(2, 3, side, side)


def test_recorded_forward_in_train_and_eval_mode() -> None:
    recorded = golden("resnet")
    net = formula_net(32)
    x = formula_input(32).contiguous(memory_format=torch.channels_last)
    feature = net.features(x)
    expected = recorded["train_mode_32"]
    torch.testing.assert_close(feature[:, :8], torch.tensor(expected["feat_first8"]), atol=2e-4, rtol=2e-4)
    torch.testing.assert_close(net.logits(feature), torch.tensor(expected["logits"]), atol=2e-4, rtol=2e-4)
    assert feature.sum().item() == pytest.approx(expected["feat_sum"], rel=1e-4)
    torch.testing.assert_close(net.slow.bn1.running_mean, torch.tensor(recorded["running_mean_bn1_after"]))
    torch.testing.assert_close(net.slow.bn1.running_var, torch.tensor(recorded["running_var_bn1_after"]))
    net.eval()
    expected = recorded["eval_mode_32_after_one_train_forward"]
    torch.testing.assert_close(net(x), torch.tensor(expected["logits"]), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("side", [64, 84])
def test_larger_images_give_640_features_in_channel_major_order(side: int) -> None:
    expected = golden("resnet")[f"train_mode_{side}"]
    net = formula_net(side)
    feature = net.features(formula_input(side))
    assert list(feature.shape) == expected["feat_shape"] == [2, 640]
    torch.testing.assert_close(feature[:, :8], torch.tensor(expected["feat_first8"]), atol=5e-4, rtol=5e-4)
    assert feature.sum().item() == pytest.approx(expected["feat_sum"], rel=1e-4)


def test_parameter_names_shapes_and_counts() -> None:
    recorded = golden("resnet")
    net = Net(ResNet(20), 10)
    mine = [[name.removeprefix("slow."), list(p.shape)] for name, p in net.named_parameters()]
    assert mine == recorded["params"]
    assert sum(p.numel() for p in net.parameters()) == recorded["n_params"]
    assert sum(p.numel() for p in net.slow.parameters()) == recorded["n_params_encoder"]


@pytest.mark.parametrize("side", [32, 64, 84])
def test_multiply_accumulates_of_the_convolutions(side: int) -> None:
    macs = 0

    def count(module: nn.Module, _: object, out: torch.Tensor) -> None:
        nonlocal macs
        assert isinstance(module, nn.Conv2d)
        macs += out.numel() * module.in_channels * module.kernel_size[0] * module.kernel_size[1]

    net = ResNet(20, image_size=side)
    for m in net.modules():
        if isinstance(m, nn.Conv2d):
            m.register_forward_hook(count)
    net(torch.zeros(1, 3, side, side))
    # the reference counts 3x3 and 1x1 convolutions alike
    assert macs == golden("resnet")["conv_macs"][str(side)]


def test_channels_last_gives_the_same_features() -> None:
    net = ResNet(4, pooling="global").eval()
    x = torch.rand(3, 3, 32, 32)
    plain = net(x)
    last = net.to(memory_format=torch.channels_last)(x.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(plain, last)


def test_a_single_tiny_image_can_be_trained_on() -> None:
    """8x8 images end in 1x1 maps: one image has no batch variance, the running statistics stand in."""
    net = ResNet(2, image_size=8, pooling="global").train()
    before = net.layer4[1].bn2.running_mean.clone()
    out = net(torch.rand(1, 3, 8, 8))
    assert torch.isfinite(out).all()
    assert torch.equal(before, net.layer4[1].bn2.running_mean)
    out.sum().backward()


def test_images_too_small_for_the_pool_are_refused() -> None:
    with pytest.raises(ValueError, match="global"):
        ResNet(20, image_size=8)
