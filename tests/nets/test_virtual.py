"""The virtual SGD step behind MIR's and DVC's retrieval."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch.func import functional_call

from emi_bench.nets import Net, ResNet
from emi_bench.nets.virtual import virtual_parameters


def backward(net: Net) -> torch.Tensor:
    x = torch.rand(6, 3, 8, 8)
    F.cross_entropy(net(x), torch.arange(6) % 4).backward()
    return x


def test_virtual_forward_equals_a_copy_that_took_the_step() -> None:
    torch.manual_seed(0)
    net = Net(ResNet(8, image_size=8, pooling="global"), 4).to(memory_format=torch.channels_last)
    x = backward(net)
    stepped = copy.deepcopy(net)
    for p, q in zip(stepped.parameters(), net.parameters(), strict=True):
        p.grad = None if q.grad is None else q.grad.clone()
    torch.optim.SGD(stepped.parameters(), lr=0.3).step()
    with torch.no_grad():
        ahead = functional_call(net, virtual_parameters(net, 0.3), (x,))
        assert torch.equal(ahead, stepped(x))
        assert not torch.equal(ahead, copy.deepcopy(net)(x))


def test_network_is_left_as_it_was() -> None:
    torch.manual_seed(0)
    net = Net(ResNet(2, image_size=8, pooling="global"), 4)
    x = backward(net)
    net.linear.bias.grad = None  # a parameter without a gradient stays where it is
    before = copy.deepcopy(net.state_dict())
    gradients = [None if p.grad is None else p.grad.clone() for p in net.parameters()]
    ahead = virtual_parameters(net, 0.3)
    with torch.no_grad():
        functional_call(net, ahead, (x,))
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert torch.equal(ahead["linear.bias"], net.linear.bias)
    for p, g in zip(net.parameters(), gradients, strict=True):
        assert (p.grad is None) if g is None else torch.equal(p.grad, g)
    assert not torch.equal(ahead["slow.bn1.running_mean"], before["slow.bn1.running_mean"])  # only the copy moved
