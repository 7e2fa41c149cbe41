"""CIFAR-10 and CIFAR-100: the original archive, the folder it unpacks to, or one .npz."""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from emi_bench.data.archives import md5_of, read_tar
from emi_bench.data.arrays import Arrays, checked
from emi_bench.data.cache import Cache
from emi_bench.data.dataset import DataSet
from emi_bench.data.info import CIFAR10 as INFO10
from emi_bench.data.info import CIFAR100 as INFO100
from emi_bench.data.info import DataInfo
from emi_bench.data.npz import read_npz
from emi_bench.data.places import again, first_there, missing
from emi_bench.errors import UserError

CIFAR10_CLASSES = "airplane automobile bird cat deer dog frog horse ship truck"
CIFAR100_CLASSES = (
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can "
    "castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin "
    "elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster "
    "man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck "
    "pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk "
    "skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger "
    "tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm"
)


@dataclass(frozen=True)
class Cifar:
    """One of the two. The checksums are those torchvision checks; a pickle with another one is never opened."""

    info: DataInfo
    archive: str
    archive_md5: str
    url: str
    folder: str
    train: Mapping[str, str]  #: file -> md5
    test: Mapping[str, str]
    label_key: str
    class_names: tuple[str, ...]

    def places(self, root: Path) -> list[Path]:
        """Where it may lie, in the order of search. The archive comes first so that a new download heals a bad copy."""
        return [root / self.archive, root / f"{self.info.name}.npz", root / self.folder]

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
                arrays = Arrays(arrays.x_train, arrays.y_train, arrays.x_test, arrays.y_test, self.class_names)
        elif place.is_dir():
            arrays = self._unpickle(place, lambda name: (place / name).read_bytes())
        else:
            arrays = self._from_archive(root, place, cached)
        return DataSet.from_arrays(self.info, arrays)

    def _from_archive(self, root: Path, place: Path, cached: bool) -> Arrays:
        found = md5_of(place)
        if found != self.archive_md5:
            raise UserError(
                f"{place} is not the published archive, or is cut short: md5 {found[:12]}…, "
                f"expected {self.archive_md5[:12]}… ({place.stat().st_size} bytes found)",
                hint=again(self.info.name, place),
            )

        def make() -> Arrays:
            files = read_tar(place)
            return self._unpickle(place, lambda name: files[name])

        return Cache(root, place, found).arrays(make) if cached else make()

    def _unpickle(self, place: Path, read: Callable[[str], bytes]) -> Arrays:
        splits = []
        for files in (self.train, self.test):
            parts = [self._batch(place, name, md5, read) for name, md5 in files.items()]
            x = np.concatenate([np.asarray(part["data"], np.uint8) for part in parts])
            y = np.concatenate([np.asarray(part[self.label_key]) for part in parts])
            splits += [x.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), y]
        return checked(str(place), *splits, class_names=self.class_names)

    def _batch(self, place: Path, name: str, md5: str, read: Callable[[str], bytes]) -> Mapping[str, object]:
        try:
            content = read(name)
        except (KeyError, FileNotFoundError) as e:
            raise UserError(f"{place} has no file {name}", hint=again(self.info.name, place)) from e
        found = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if found != md5:
            raise UserError(
                f"{place}: {name} is not the published file: md5 {found[:12]}…, expected {md5[:12]}…",
                hint=again(self.info.name, place),
            )
        batch: Mapping[str, object] = pickle.load(io.BytesIO(content), encoding="latin1")
        return batch


CIFAR10 = Cifar(
    info=INFO10,
    archive="cifar-10-python.tar.gz",
    archive_md5="c58f30108f718f92721af3b95e74349a",
    url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    folder="cifar-10-batches-py",
    train={
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    },
    test={"test_batch": "40351d587109b95175f43aff81a1287e"},
    label_key="labels",
    class_names=tuple(CIFAR10_CLASSES.split()),
)
CIFAR100 = Cifar(
    info=INFO100,
    archive="cifar-100-python.tar.gz",
    archive_md5="eb9058c3a382ffc7106e4002c42a8d85",
    url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
    folder="cifar-100-python",
    train={"train": "16019d7e3df5f24257cddd939b257f8d"},
    test={"test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
    label_key="fine_labels",
    class_names=tuple(CIFAR100_CLASSES.split()),
)
