"""Sizes of the heads, and the cosine head against recorded scores."""

from __future__ import annotations

import pytest
import torch

from emi_bench.nets import ResNet
from emi_bench.nets.heads import ContrastiveNet, CosineHead, CosineNet, DualViewNet, projection_mlp, q_net
from tests.golden_files import golden


def n_params(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(("key", "size", "dim"), [("scr_32", 32, 160), ("scr_64", 64, 640)])
def test_scr_net_has_the_recorded_sizes(key: str, size: int, dim: int) -> None:
    record = golden("resnet")[key]
    net = ContrastiveNet(ResNet(20, image_size=size), projection_mlp(dim))
    assert [[name, list(p.shape)] for name, p in net.proj.named_parameters()] == record["head"]
    assert n_params(net) == record["n_params_without_unused_linear"]


def test_contrastive_net_gives_unit_embeddings() -> None:
    net = ContrastiveNet(ResNet(2, image_size=8, pooling="global"), projection_mlp(16, 12))
    z = net(torch.rand(4, 3, 8, 8))
    assert z.shape == (4, 12)
    torch.testing.assert_close(z.norm(dim=1), torch.ones(4))


@pytest.mark.parametrize("c", [10, 100, 200])
def test_dvc_nets_have_the_recorded_sizes(c: int) -> None:
    record = golden("dvc_losses_mgi")["param_counts"]
    assert n_params(q_net(c)) == record[f"qnet_C{c}"]
    if f"reduced_resnet18_dvc_C{c}" in record:
        assert n_params(DualViewNet(ResNet(20), c)) == record[f"reduced_resnet18_dvc_C{c}"]


@pytest.mark.parametrize("c", [10, 100])
def test_pcr_net_has_the_recorded_size_without_the_unused_linear_layer(c: int) -> None:
    record = golden("pcr_loss_step")["param_counts"][f"reduced_resnet18_pcr_C{c}_incl_unused_linear"]
    assert n_params(CosineNet(ResNet(20), c)) == record - (160 * c + c)


def test_pcr_proxies_have_the_width_of_the_features_at_64_pixels() -> None:
    net = CosineNet(ResNet(2, image_size=64), 10)
    assert net(torch.zeros(2, 3, 64, 64)).shape == (2, 10)
    assert net.linear.weight.shape == (10, 64)


def test_cosine_scores_are_the_recorded_ones() -> None:
    record = golden("pcr_loss_step")["cosine_head"]
    head = CosineHead(4, 3, record["scale"]).double()
    head.weight.data = torch.tensor(record["weight"], dtype=torch.float64)
    scores = head(torch.tensor(record["x"], dtype=torch.float64))
    torch.testing.assert_close(scores, torch.tensor(record["scores"], dtype=torch.float64), atol=1e-9, rtol=0)


def test_cosine_head_starts_like_a_linear_layer_and_survives_zero_features() -> None:
    head = CosineHead(160, 10)
    assert head.bias is None
    assert head.weight.abs().max() <= 160**-0.5
    zeros = torch.zeros(2, 160, requires_grad=True)
    head(zeros).sum().backward()
    assert zeros.grad.isfinite().all()
