"""CIFAR-10 and CIFAR-100: the original archive or the folder it unpacks to, both read by torchvision, or one .npz."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from emi_bench.data.archives import Remote, md5_of
from emi_bench.data.arrays import Arrays, checked
from emi_bench.data.cache import Cache
from emi_bench.data.dataset import DataSet
from emi_bench.data.info import CIFAR10 as INFO10
from emi_bench.data.info import CIFAR100 as INFO100
from emi_bench.data.info import DataInfo
from emi_bench.data.npz import read_npz
from emi_bench.data.places import again, first_there, missing
from emi_bench.errors import UserError


@dataclass(frozen=True)
class Cifar:
    """One of the two. What can be said without torchvision is: importing it takes two seconds."""

    info: DataInfo
    remote: Remote
    folder: str

    def places(self, root: Path) -> list[Path]:
        """Where it may lie, in the order of search. The archive comes first so that a new download heals a bad copy."""
        return [root / self.remote.filename, root / f"{self.info.name}.npz", root / self.folder]

    def find(self, root: Path) -> str | None:
        place = first_there(self.places(root))
        return str(place) if place else None

    def load(self, root: Path, cached: bool = True) -> DataSet:
        """The data set, its content checked against the known fingerprints."""
        place = first_there(self.places(root))
        if place is None:
            raise missing(self.info.name, self.info.title, root, self.places(root))
        if place.suffix == ".npz":
            arrays = read_npz(place)
            if len(arrays.class_names) == self.info.n_classes:
                arrays = Arrays(arrays.x_train, arrays.y_train, arrays.x_test, arrays.y_test, self.info.class_names)
        elif place.is_dir():
            arrays = self._read(place)
        else:
            arrays = self._from_archive(root, place, cached)
        return DataSet.from_arrays(self.info, arrays)

    def _from_archive(self, root: Path, place: Path, cached: bool) -> Arrays:
        found = md5_of(place)
        if found != self.remote.md5:
            raise UserError(
                f"{place} is not the published archive, or is cut short: md5 {found[:12]}…, "
                f"expected {self.remote.md5[:12]}… ({place.stat().st_size} bytes found)",
                hint=again(self.info.name, place),
            )

        def make() -> Arrays:
            from torchvision.datasets.utils import extract_archive

            with tempfile.TemporaryDirectory() as unpacked:
                extract_archive(place, unpacked)
                return self._read(Path(unpacked) / self.folder)

        return Cache(root, place, found).arrays(make) if cached else make()

    def _read(self, place: Path) -> Arrays:
        """The unpacked folder. torchvision opens no pickle before all have their published md5."""
        from torchvision import datasets
        from torchvision.datasets.utils import check_integrity

        cifar = getattr(datasets, self.info.name.upper())
        try:
            splits = [cifar(place.parent, train=train) for train in (True, False)]
        except RuntimeError as e:
            files = [*cifar.train_list, *cifar.test_list, (cifar.meta["filename"], cifar.meta["md5"])]
            bad = [name for name, md5 in files if not check_integrity(place / name, md5)]
            raise UserError(
                f"{place}: {', '.join(bad)} missing or not as published", hint=again(self.info.name, place)
            ) from e
        arrays = [part for split in splits for part in (split.data, np.array(split.targets))]
        return checked(str(place), *arrays, class_names=self.info.class_names)


CIFAR10 = Cifar(
    INFO10,
    Remote(
        "cifar-10-python.tar.gz",
        "c58f30108f718f92721af3b95e74349a",
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        170,
    ),
    "cifar-10-batches-py",
)
CIFAR100 = Cifar(
    INFO100,
    Remote(
        "cifar-100-python.tar.gz",
        "eb9058c3a382ffc7106e4002c42a8d85",
        "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        170,
    ),
    "cifar-100-python",
)
