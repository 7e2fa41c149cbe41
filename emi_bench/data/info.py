"""What is known of a data set without reading its images."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from emi_bench import reference
from emi_bench.data.arrays import Arrays, Triple, content_sha256, mean_and_std


@dataclass(frozen=True)
class DataInfo:
    """Enough to plan a run. `None` stands for what is not known before somebody says it."""

    name: str  #: registry name; for a user's own data the file's name and first digits of both fingerprints
    n_classes: int
    n_tasks: int | None  #: the papers' split; a user's own data has none
    image_size: int  #: side in pixels
    n_train: int
    n_test: int
    mean: Triple  #: of the training pixels in 0-1
    std: Triple
    train_sha256: str | None = None  #: content fingerprints (see `content_sha256`)
    test_sha256: str | None = None
    own: bool = False  #: a user's file: the name says nothing of its content, the fingerprint does
    title: str = ""  #: as the papers print it
    class_names: tuple[str, ...] = ()  #: empty where they are not known before the data is read

    @property
    def fingerprint(self) -> str | None:
        """The content fingerprint of a `DataSet`, where it is known."""
        return f"{self.train_sha256}:{self.test_sha256}" if self.train_sha256 and self.test_sha256 else None


def own_title(path: Path) -> str:
    """The name of a user's file as it may stand in the path of a result.

    >>> own_title(Path("/data/my birds (v2).npz"))
    'my-birds-v2'
    """
    return re.sub(r"[^A-Za-z0-9_.]+", "-", path.stem).strip("-.") or "data"


def counted(info: DataInfo, arrays: Arrays) -> DataInfo:
    """The entry with counts, size and fingerprints as the arrays have them; the rest cannot be seen in them."""
    n_classes = len(arrays.class_names)
    return replace(
        info,
        n_classes=n_classes,
        class_names=arrays.class_names,
        image_size=arrays.x_train.shape[1],
        n_train=len(arrays.y_train),
        n_test=len(arrays.y_test),
        train_sha256=content_sha256(arrays.x_train, arrays.y_train, n_classes),
        test_sha256=content_sha256(arrays.x_test, arrays.y_test, n_classes),
    )


def measured(name: str, arrays: Arrays) -> DataInfo:
    """The entry of arrays of which nothing is known but a name; mean and standard deviation are theirs too."""
    mean, std = mean_and_std(arrays.x_train)
    return counted(DataInfo(name, 0, None, 0, 0, 0, mean, std), arrays)


def info_of(title: str, arrays: Arrays) -> DataInfo:
    """The entry of a user's own data. Its name has digits of the content: versions never share a table cell."""
    info = measured(title, arrays)
    digits = f"{info.train_sha256:.4}{info.test_sha256:.4}"
    return replace(info, name=f"{title}-{digits}", title=title, own=True)


_CIFAR10_CLASSES = "airplane automobile bird cat deer dog frog horse ship truck"
_CIFAR100_CLASSES = (
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can "
    "castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin "
    "elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster "
    "man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck "
    "pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk "
    "skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger "
    "tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm"
)


def _of_the_paper(name: str) -> dict[str, Any]:
    """Name, title and split of a data set of the paper."""
    told = reference.settings()["datasets"][name]
    return {"name": name, "title": told["title"], "n_tasks": told["n_tasks"]}


DIGITS = DataInfo(
    name="digits",
    title="Digits",
    class_names=tuple("0123456789"),
    n_classes=10,
    n_tasks=5,
    image_size=8,
    n_train=1400,
    n_test=397,
    mean=(0.3052, 0.3052, 0.3052),
    std=(0.3757, 0.3757, 0.3757),
    train_sha256="3d9089a6ad34b1d3055d19db0f49caf9a0f48371a4d2fa60af697411d9507a28",
    test_sha256="cdfda24b5be113cb9cf00ae92afb16bc937aa516ebbc9ca0052ab7454d9c7514",
)
CIFAR10 = DataInfo(
    **_of_the_paper("cifar10"),
    class_names=tuple(_CIFAR10_CLASSES.split()),
    n_classes=10,
    image_size=32,
    n_train=50000,
    n_test=10000,
    mean=(125.3 / 255, 123.0 / 255, 113.9 / 255),
    std=(63.0 / 255, 62.1 / 255, 66.7 / 255),
    train_sha256="f912919bdea371136f1aa4feed6beeca728015a5f08b1899a29c932a7e30be2b",
    test_sha256="8193b3fbce55bec361cd1b8fd4880cb1649832dc4d6de6da1e7a21847a4843aa",
)
CIFAR100 = replace(
    CIFAR10,
    **_of_the_paper("cifar100"),
    class_names=tuple(_CIFAR100_CLASSES.split()),
    n_classes=100,
    train_sha256="14886c20287690f03728355958fe0858f491f72573360ceb2c75e0feff0833ba",
    test_sha256="1a89522ef3d4d89d962566436ca6223f42f4a2dcbfa3bd870b2ead933a83e54a",
)
# Decoded pixels depend on the JPEG library, so that class and image counts stand in for a fingerprint.
TINYIMAGENET = DataInfo(
    **_of_the_paper("tinyimagenet"),
    n_classes=200,
    image_size=64,
    n_train=100000,
    n_test=10000,
    mean=(0.4802, 0.4480, 0.3975),
    std=(0.2770, 0.2691, 0.2821),
)
