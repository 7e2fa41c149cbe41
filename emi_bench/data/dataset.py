"""A data set in memory: what every run, stream and report is handed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from emi_bench.data.arrays import Arrays
from emi_bench.data.info import DataInfo, counted, measured


@dataclass(frozen=True, eq=False)
class DataSet:
    """Images (N,3,H,W) uint8, in channels_last memory as the networks read them; labels (N,) int64 on the host.

    `info` describes just this content and travels with it: nobody who is handed data asks the catalogue.
    `fingerprint` is "TRAIN:TEST", the sha256 of each split's content (see `content_sha256`).

    >>> import numpy as np
    >>> from emi_bench.data.arrays import checked
    >>> x, y = np.zeros((4, 8, 8), np.uint8), np.array([0, 1, 0, 1])
    >>> data = DataSet.from_arrays("mine", checked("mine", x, y, x, y))
    >>> tuple(data.x_train.shape), data.n_classes, data.image_size, data.info.train_sha256 == data.info.test_sha256
    ((4, 3, 8, 8), 2, 8, True)
    """

    info: DataInfo
    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor
    class_names: tuple[str, ...]

    @classmethod
    def from_arrays(cls, about: str | DataInfo, arrays: Arrays) -> Self:
        """The data set of arrays that `checked` has let through; no pixel is copied.

        `about` is what is known of it; with a name alone, mean and standard deviation are those of the arrays.
        """
        return cls(
            info=measured(about, arrays) if isinstance(about, str) else counted(about, arrays),
            x_train=torch.from_numpy(arrays.x_train).permute(0, 3, 1, 2),
            y_train=torch.from_numpy(arrays.y_train),
            x_test=torch.from_numpy(arrays.x_test).permute(0, 3, 1, 2),
            y_test=torch.from_numpy(arrays.y_test),
            class_names=arrays.class_names,
        )

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def n_classes(self) -> int:
        return len(self.class_names)

    @property
    def image_size(self) -> int:
        return self.x_train.shape[-1]

    @property
    def fingerprint(self) -> str:
        return f"{self.info.train_sha256}:{self.info.test_sha256}"

    def to(self, device: str | torch.device) -> Self:
        """The same with its images on the device; labels stay on the host, where class bookkeeping happens."""
        return replace(self, x_train=self.x_train.to(device), x_test=self.x_test.to(device))
