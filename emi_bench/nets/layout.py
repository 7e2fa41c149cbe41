"""Where channels lie in memory: what a network is built in, and what it wants its images in."""

from __future__ import annotations

import torch
from torch import nn


def layout_for(net: nn.Module) -> torch.memory_format:
    """The layout in which `build` makes a network: channels_last, but not for toy widths.

    oneDNN's backward of a strided 1x1 convolution in channels_last writes outside its buffers when there are fewer than
    8 input channels (torch 2.15 on a CPU: seen at 2, 4 and 6, never from 7 on), and the process dies much later.
    """
    at_risk = (m for m in net.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (1, 1) and m.stride != (1, 1))
    return torch.contiguous_format if any(m.in_channels < 8 for m in at_risk) else torch.channels_last


def layout_of(net: nn.Module) -> torch.memory_format:
    """The layout a network is in, and wants its images in."""
    kernels = [p for p in net.parameters() if p.dim() == 4 and not p.is_contiguous()]
    return torch.channels_last if kernels else torch.contiguous_format
