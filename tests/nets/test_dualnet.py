"""DualNet: the recorded forward pass, its shapes, its wiring, and recomputation."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from emi_bench.nets import ResNet
from emi_bench.nets.dualnet import DualNet, FastNet, mlp_head
from emi_bench.nets.recompute import recomputing
from tests.golden_files import golden


class StemPooled(ResNet):
    """The published slow net: a max-pool after the stem."""

    def stem(self, x: Tensor) -> Tensor:
        return F.max_pool2d(super().stem(x), 3, 2, 1)


def small(**options: Any) -> DualNet:
    torch.manual_seed(0)
    return DualNet(ResNet(2, image_size=8, pooling="global"), 4, **({"proj": nn.Linear(16, 12)} | options)).double()


def images(n: int = 5, side: int = 8) -> Tensor:
    return torch.randn(n, 3, side, side, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def our_name(name: str) -> str | None:
    if gate := re.fullmatch(r"f_conv(\d)\.(\d)\.(\w+)", name):
        return f"fast.f{gate[1]}.{'conv' if gate[2] == '0' else 'bn'}.{gate[3]}"
    if name.startswith("linear"):
        return name
    return None if name.startswith(("projector", "predictor")) else f"slow.{name}"


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_recorded_forward_of_the_published_net(mode: str) -> None:
    record = golden("dualnet_forward")
    encoder = StemPooled(2, image_size=84, pooling="global")
    net = DualNet(encoder, 5, proj=nn.Linear(16, 12)).double()
    net.fast.f1.pool = True  # the published one pools after its stem
    state = net.state_dict()
    given = {"proj.weight", "proj.bias"}
    for p in record["parameters"]:
        if (name := our_name(p["name"])) is None:
            continue
        k = torch.arange(state[name].numel(), dtype=torch.float64)
        wave = torch.sin(0.37 * k + 1.3 * p["idx"])
        state[name] = (1 + 0.1 * wave if p["offset_one"] else 0.3 * wave).view(p["shape"])
        given.add(name)
    assert given == dict(net.named_parameters()).keys()
    net.load_state_dict(state)
    net.train(mode == "train")

    i = torch.arange(84, dtype=torch.float64)
    rows = 0.1 * (i + 1)[None, :, None] * torch.arange(1, 4)[:, None, None] + 0.07 * i
    x = torch.sin(rows + torch.arange(3)[:, None, None, None])
    slow = net.slow.maps(x)
    expected = record[mode]
    assert [list(h.shape) for h in slow] == expected["slow_shapes"]
    assert [h.abs().sum().item() for h in slow] == pytest.approx(expected["slow_abs_sum"], rel=1e-9)
    fast = net.fast.maps(x, slow)
    assert [list(m.shape) for m in fast] == expected["fast_shapes"]
    assert [m.abs().sum().item() for m in fast] == pytest.approx(expected["fast_abs_sum"], rel=1e-9)
    fast_feature, slow_feature = net.both(x)
    for mine, name in ((fast_feature, "fast_feature"), (slow_feature, "slow_feature"), (net(x), "logits")):
        torch.testing.assert_close(mine, torch.tensor(expected[name], dtype=torch.float64), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("side", [8, 32, 64])
def test_fast_maps_have_the_shapes_of_the_slow_ones(side: int) -> None:
    net = small().float()
    slow = net.slow.maps(torch.zeros(2, 3, side, side))
    assert [h.shape[1:] for h in slow] == [(2 << i, side >> i, side >> i) for i in range(4)]
    assert [m.shape for m in net.fast.maps(torch.zeros(2, 3, side, side), slow)] == [h.shape for h in slow]


def test_parameter_counts_of_the_paper() -> None:
    assert sum(p.numel() for p in FastNet(20).parameters()) == 152_640
    assert sum(p.numel() for p in ResNet(20, pooling="global").parameters()) == 1_093_140
    assert [n for n, _ in FastNet(20, "same_level").named_children()] == ["f4"]


def test_a_zero_last_gate_leaves_a_zero_fast_feature() -> None:
    net = small()
    for p in (*net.fast.f4.conv.parameters(), net.fast.f4.bn.bias):
        nn.init.zeros_(p)
    assert net.features(images()).abs().max() == 0


def test_slow_features_do_not_depend_on_the_fast_net() -> None:
    net = small()
    fast, slow = net.both(images())
    for p in net.fast.parameters():
        nn.init.normal_(p)
    fast_after, slow_after = net.both(images())
    assert torch.equal(slow, slow_after)
    assert not torch.equal(fast, fast_after)


@pytest.mark.parametrize("wiring", ["chain", "same_level"])
def test_gates_and_fast_features_are_not_negative(wiring: Any) -> None:
    net = small(fast_net=wiring)
    seen: list[Tensor] = []
    net.fast.f4.register_forward_hook(lambda module, args, out: seen.append(out))
    assert net.features(images()).min() >= 0
    assert seen[0].min() >= 0


def test_chain_feeds_each_gate_with_the_gated_map_below() -> None:
    net = small()
    x = images()
    h1, h2, h3, h4 = net.slow.maps(x)

    def gate(block: nn.Module, m: Tensor, pool: bool) -> Tensor:
        out = F.relu(block.bn(block.conv(m)))
        return F.max_pool2d(out, 2, ceil_mode=True) if pool else out

    m = gate(net.fast.f1, x, False) * h1
    for block, h in ((net.fast.f2, h2), (net.fast.f3, h3), (net.fast.f4, h4)):
        m = gate(block, m, True) * h
    torch.testing.assert_close(net.features(x), m.mean((2, 3)))


def test_same_level_gates_the_last_slow_map_with_itself() -> None:
    net = small(fast_net="same_level")
    h4 = net.slow.maps(images())[-1]
    gate = F.relu(net.fast.f4.bn(net.fast.f4.conv(h4)))
    torch.testing.assert_close(net.features(images()), (gate * h4).mean((2, 3)))


@pytest.mark.parametrize("way", ["features", "both"])
def test_detach_slow_keeps_the_values_and_stops_the_gradient(way: str) -> None:
    net, detached = small(), small(detach_slow=True)
    fast = [n.features(images()) if way == "features" else n.both(images())[0] for n in (net, detached)]
    assert torch.equal(fast[0], fast[1])
    for out in fast:
        out.sum().backward()
    assert all(p.grad is not None for p in net.slow.parameters())
    assert all(p.grad is None for p in detached.slow.parameters())
    assert all(p.grad is not None for p in detached.fast.parameters())


def test_detach_slow_lets_the_slow_features_train_the_slow_net() -> None:
    net = small(detach_slow=True)
    net.both(images())[1].sum().backward()
    assert all(p.grad is not None for p in net.slow.parameters())


def test_mlp_head_keeps_the_width() -> None:
    head = mlp_head(16)
    assert [n for n, _ in head.named_parameters()] == ["0.weight", "1.weight", "1.bias", "3.weight"]
    assert head(torch.zeros(3, 16)).shape == (3, 16)


def _pass(net: DualNet, recompute: bool) -> tuple[list[Tensor], dict[str, Tensor], int]:
    saved = 0

    def pack(t: Tensor) -> Tensor:
        nonlocal saved
        saved += t.numel() * t.element_size() * (not isinstance(t, nn.Parameter))
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        if recompute:
            with recomputing(net):
                fast, slow = net.both(images(12))
        else:
            fast, slow = net.both(images(12))
    net.features(images(3))  # a later forward moves the statistics before the backward pass recomputes
    (fast.square().sum() + slow.sum()).backward()
    grads = [p.grad for p in net.parameters() if p.grad is not None]
    return grads, net.state_dict(), saved


def test_recomputing_gives_the_same_bits_with_less_memory_and_updates_statistics_once() -> None:
    grads, state, saved = _pass(small(), recompute=False)
    grads_again, state_again, saved_again = _pass(small(), recompute=True)
    assert len(grads) == len(grads_again) > 70
    assert all(torch.equal(a, b) for a, b in zip(grads, grads_again, strict=True))
    assert all(torch.equal(value, state_again[name]) for name, value in state.items())
    assert state["slow.bn1.num_batches_tracked"] == 2
    assert saved_again < saved / 2


def test_recomputing_ends_with_its_context() -> None:
    net = small()
    with recomputing(net):
        assert "forward" in vars(net.fast.f4)
    assert not any("forward" in vars(m) for m in net.modules())
