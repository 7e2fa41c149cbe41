"""Networks. A network for a method is any module with `features(x)` and `logits(features)`; see `net.Net`."""

from emi_bench.nets.encoder import Encoder
from emi_bench.nets.net import Net
from emi_bench.nets.resnet import ResNet

__all__ = ["Encoder", "Net", "ResNet"]
