"""torch's optimisers without its compiler, which they import with the first parameter they are given.

That import takes four seconds of processor time in every new process (torch 2.15), and nothing here is compiled. What
is left out is only the wrapper around each function that tells the compiler to keep away; the functions are torch's.
"""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

import torch

T = TypeVar("T", bound=torch.optim.Optimizer)

#: What the wrappers are around, besides `step`.
WRAPPED = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")


def without_compiler(kind: type[T]) -> type[T]:
    """The same optimiser under the same name. Its `step` records no gradients, as that of torch."""
    own: dict[str, Any] = {name: inspect.unwrap(getattr(kind, name)) for name in WRAPPED}
    own["step"] = torch.no_grad()(inspect.unwrap(kind.step))
    return type(kind.__name__, (kind,), own)


SGD = without_compiler(torch.optim.SGD)
Adam = without_compiler(torch.optim.Adam)
AdamW = without_compiler(torch.optim.AdamW)
