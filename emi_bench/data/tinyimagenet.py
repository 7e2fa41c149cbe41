"""Tiny-ImageNet and data in its layout, from the zip as it was downloaded or from a folder.

TOP/wnids.txt (the order of the classes), TOP/words.txt, TOP/train/WNID/images/*.JPEG, TOP/val/images/*.JPEG with
TOP/val/val_annotations.txt. The official validation split is the test set: the real test labels were never published.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from emi_bench.data.archives import Remote, files_signature, open_zip, zip_signature
from emi_bench.data.arrays import Arrays, checked
from emi_bench.data.cache import Cache
from emi_bench.data.dataset import DataSet
from emi_bench.data.decode import decode
from emi_bench.data.info import TINYIMAGENET
from emi_bench.data.places import first_there, missing
from emi_bench.errors import UserError

FOLDER = "tiny-imagenet-200"
REMOTE = Remote(f"{FOLDER}.zip", "90528d7ca1a48142e341f4ef8d21d0de", f"http://cs231n.stanford.edu/{FOLDER}.zip", 248)
TRAIN_PER_CLASS, TEST_PER_CLASS = 500, 50


@dataclass(frozen=True)
class Listing:
    """Which image belongs where; no image has been opened yet."""

    wnids: list[str]
    class_names: tuple[str, ...]
    train: list[tuple[str, int]]  #: (file, class)
    test: list[tuple[str, int]]


def signature(path: Path) -> str:
    """The content of the zip or folder, from its directory alone."""
    if path.is_file():
        return zip_signature(path)
    files = sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file())
    return files_signature(path, files)


def read(path: Path, accept: Callable[[Listing], None] = lambda listing: None) -> Arrays:
    """Decode a zip or folder. `accept` sees the listing first and may refuse it."""
    if path.is_dir():
        names = [p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file()]
        return _read(path, names, lambda name: (path / name).read_bytes(), accept)
    with open_zip(path) as archive:
        return _read(path, archive.namelist(), archive.read, accept)


def _read(path: Path, names: list[str], get: Callable[[str], bytes], accept: Callable[[Listing], None]) -> Arrays:
    listing = _listing(path, names, get)
    accept(listing)
    splits: list[np.ndarray] = []
    for part in (listing.train, listing.test):
        splits += [decode([name for name, _ in part], get, str(path)), np.array([c for _, c in part])]
    return checked(str(path), *splits, class_names=listing.class_names)


def _listing(path: Path, names: list[str], get: Callable[[str], bytes]) -> Listing:
    tops = [name.removesuffix("wnids.txt") for name in names if name.split("/")[-1] == "wnids.txt"]
    if not tops:
        raise UserError(f"{path} has no wnids.txt", hint=f"The layout is: {(__doc__ or '').split(chr(10) * 2)[1]}")
    top, there = min(tops, key=len), set(names)

    def lines(name: str) -> list[list[str]]:
        if top + name not in there:
            raise UserError(f"{path} has no {top}{name}", hint="Use the archive as it was published, or its folder.")
        return [row.split("\t") for row in get(top + name).decode().splitlines() if row.strip()]

    wnids = [row[0].strip() for row in lines("wnids.txt")]
    number = {wnid: c for c, wnid in enumerate(wnids)}
    words = {row[0]: row[-1].split(",")[0].strip() for row in lines("words.txt")} if f"{top}words.txt" in there else {}
    train = []
    for name in names:
        folders = name.removeprefix(top).split("/")
        if name.startswith(f"{top}train/") and len(folders) == 4 and folders[1] in number and _is_image(name):
            train.append((name, number[folders[1]]))
    test = []
    for row in lines("val/val_annotations.txt"):
        if len(row) < 2:
            raise UserError(
                f"{path}: a line of val_annotations.txt reads {row[0]!r}", hint="It is FILE, tab, WNID, ..."
            )
        if row[1] in number:
            test.append((f"{top}val/images/{row[0]}", number[row[1]]))
    absent = [name for name, _ in test if name not in there]
    if absent:
        raise UserError(
            f"{path}: {len(absent)} images of val_annotations.txt are not there, first {absent[0]}",
            hint="The archive or folder is incomplete: get it again.",
        )
    for split, part in (("training", train), ("validation", test)):
        shown = {c for _, c in part}
        bare = [w for w in wnids if number[w] not in shown]
        if bare:
            raise UserError(
                f"{path}: {len(bare)} of {len(wnids)} classes have no {split} image, first {bare[0]}",
                hint="Remove them from wnids.txt, or add their images.",
            )
    for part in (train, test):
        part.sort(key=lambda item: (item[1], item[0]))
    return Listing(wnids, tuple(words.get(w, w) for w in wnids), train, test)


def _is_image(name: str) -> bool:
    return name.lower().endswith((".jpeg", ".jpg", ".png"))


def complete(path: Path) -> Callable[[Listing], None]:
    """Refuses a listing that is not the whole of Tiny-ImageNet."""

    def accept(listing: Listing) -> None:
        train, test = (Counter(c for _, c in part) for part in (listing.train, listing.test))
        n = len(listing.wnids)
        whole = n == TINYIMAGENET.n_classes
        whole &= set(train.values()) == {TRAIN_PER_CLASS} and set(test.values()) == {TEST_PER_CLASS}
        if not whole:
            raise UserError(
                f"{path} is not the whole of Tiny-ImageNet: {n} classes (200 expected) with "
                f"{_range(train)} training (500) and {_range(test)} validation (50) images each",
                hint=f"A subset is not Tiny-ImageNet. Run it under its own name, --dataset tiny:{path},\n"
                "or get the whole: emi-bench data download tinyimagenet",
            )

    return accept


def _range(counts: Counter[int]) -> str:
    low, high = min(counts.values()), max(counts.values())
    return str(low) if low == high else f"{low} to {high}"


def places(root: Path) -> list[Path]:
    return [root / REMOTE.filename, root / FOLDER]


def find(root: Path) -> str | None:
    place = first_there(places(root))
    return str(place) if place else None


def load(root: Path, cached: bool = True) -> DataSet:
    """Tiny-ImageNet, whole or not at all."""
    place = first_there(places(root))
    if place is None:
        raise missing("tinyimagenet", TINYIMAGENET.title, root, places(root))

    def make() -> Arrays:
        return read(place, complete(place))

    arrays = Cache(root, place, signature(place)).arrays(make) if cached else make()
    return DataSet.from_arrays(TINYIMAGENET, arrays)
