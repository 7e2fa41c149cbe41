"""Less activation memory: a block keeps its input only and computes the rest again when the backward pass arrives.

Values, gradients and batch-norm statistics are those of the plain pass, bit for bit on a CPU; it costs one more forward
pass. Batch norm in training mode updates its running statistics whenever it runs, so the second run is given copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from emi_bench.nets.dualnet import Gate
from emi_bench.nets.resnet import BasicBlock

BLOCKS = (BasicBlock, Gate)


@contextmanager
def recomputing(net: nn.Module) -> Iterator[None]:
    """Forward passes begun inside keep, of each residual block and gate of the net, its input only."""
    with ExitStack() as stack:
        for module in net.modules():
            if isinstance(module, BLOCKS):
                stack.enter_context(_recomputed(module))
        yield


@contextmanager
def _recomputed(block: nn.Module) -> Iterator[None]:
    plain = block.forward

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), _spare_statistics(block)

    def forward(x: Tensor) -> Tensor:
        out: Tensor = checkpoint(plain, x, use_reentrant=False, preserve_rng_state=False, context_fn=contexts)
        return out

    block.forward = forward
    try:
        yield
    finally:
        del block.forward  # the class's own shows again


@contextmanager
def _spare_statistics(block: nn.Module) -> Iterator[None]:
    """Inside, the batch norms of a block write their running statistics into copies."""
    norms = [m for m in block.modules() if isinstance(m, _BatchNorm)]
    kept = [dict(m._buffers) for m in norms]
    for norm in norms:
        for name, buffer in norm._buffers.items():
            if buffer is not None:
                norm._buffers[name] = buffer.clone()
    try:
        yield
    finally:
        for norm, buffers in zip(norms, kept, strict=True):
            norm._buffers.update(buffers)
