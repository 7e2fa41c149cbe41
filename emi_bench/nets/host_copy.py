"""Decisions on the host that depend on values of the device, without stopping the device."""

from __future__ import annotations

import torch
from torch import Tensor


class HostCopy:
    """A tensor on its way to the host: sent when this is made, waited for when it is read.

    On CUDA the copy goes to pinned memory behind the work queued so far, and reading waits for that point of the queue
    and not for what came after it. On a CPU it is the tensor itself.

    >>> HostCopy(torch.tensor([1.0, 2.0])).read()
    tensor([1., 2.])
    """

    def __init__(self, values: Tensor) -> None:
        self._values, self._arrived = values, None
        if values.is_cuda:
            self._values = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._values.copy_(values, non_blocking=True)
            self._arrived = torch.cuda.current_stream(values.device).record_event()

    def read(self) -> Tensor:
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._values
