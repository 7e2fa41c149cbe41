"""Per-chunk and per-sample gradients against one ordinary backward each."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

from emi_bench.nets import Net, ResNet
from emi_bench.nets.gradients import chunk_gradients


@pytest.mark.parametrize("vectorised", [True, False, None])
@pytest.mark.parametrize(("n", "q"), [(3, 4), (6, 1), (1, 5)])
def test_each_row_is_the_gradient_of_its_chunk(n: int, q: int, vectorised: bool | None) -> None:
    torch.manual_seed(0)
    net = Net(ResNet(8, image_size=8, pooling="global"), 4).to(memory_format=torch.channels_last).eval()
    x, y = torch.rand(n, q, 3, 8, 8), torch.randint(4, (n, q))
    before = copy.deepcopy(net.state_dict())
    rows = chunk_gradients(net, x, y, vectorised=vectorised)
    assert all(p.grad is None for p in net.parameters())
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    for row, xs, ys in zip(rows, x, y, strict=True):
        expected = torch.autograd.grad(F.cross_entropy(net(xs), ys), list(net.parameters()))
        torch.testing.assert_close(row, torch.cat([g.flatten() for g in expected]), atol=1e-6, rtol=1e-4)


def test_bf16_runs_get_full_precision_gradients() -> None:
    torch.manual_seed(0)
    net = Net(ResNet(4, image_size=8, pooling="global"), 4).eval()
    x, y = torch.rand(2, 1, 3, 8, 8), torch.tensor([[0], [3]])
    plain = chunk_gradients(net, x, y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(chunk_gradients(net, x, y), plain)
