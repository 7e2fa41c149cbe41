"""Data sets in Ray's object store: put once by the driver, mapped by every worker of a node without a copy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

from emi_bench.data.dataset import DataSet


def put(data: DataSet) -> Any:
    """Hand a data set to Ray; the driver keeps only the reference."""
    import ray

    return ray.put(
        {
            "info": data.info,
            "x_train": data.x_train.permute(0, 2, 3, 1).numpy(),
            "y_train": data.y_train.numpy(),
            "x_test": data.x_test.permute(0, 2, 3, 1).numpy(),
            "y_test": data.y_test.numpy(),
            "class_names": data.class_names,
        }
    )


def get(reference: Any) -> DataSet:
    """The data set behind a reference; its tensors read the node's one copy."""
    import ray

    shared = ray.get(reference)
    return DataSet(
        info=shared["info"],
        x_train=_tensor(shared["x_train"]).permute(0, 3, 1, 2),
        y_train=_tensor(shared["y_train"]),
        x_test=_tensor(shared["x_test"]).permute(0, 3, 1, 2),
        y_test=_tensor(shared["y_test"]),
        class_names=tuple(shared["class_names"]),
    )


def _tensor(array: np.ndarray) -> torch.Tensor:
    with warnings.catch_warnings():
        # The memory is read-only. A run only indexes a data set, which copies.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)
