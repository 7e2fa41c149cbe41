"""A user's images in folders: train/CLASS/IMAGE and test/CLASS/IMAGE."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from emi_bench.data.archives import files_signature
from emi_bench.data.arrays import SPLITS, Arrays, checked
from emi_bench.data.decode import decode
from emi_bench.errors import UserError

LITTER = {"thumbs.db", "desktop.ini"}  #: what file managers leave behind


def signature(path: Path) -> str:
    """The content of the folder, without reading it."""
    classes = _classes(path)
    return files_signature(path, [name for split in SPLITS for name, _ in _files(path, split, classes)])


def read(path: Path) -> Arrays:
    """Classes in the order of their names, images in the order of theirs."""
    classes = _classes(path)
    splits: list[np.ndarray] = []
    for split in SPLITS:
        files = _files(path, split, classes)
        images = decode([name for name, _ in files], lambda name: (path / name).read_bytes(), str(path))
        splits += [images, np.array([c for _, c in files])]
    return checked(str(path), *splits, class_names=tuple(classes))


def _classes(path: Path) -> list[str]:
    by_split = []
    for split in SPLITS:
        folder = path / split
        if not folder.is_dir():
            raise UserError(
                f"{path} has no folder {split}", hint="The layout is train/CLASS/IMAGE and test/CLASS/IMAGE."
            )
        by_split.append({p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")})
    odd = sorted(by_split[0] ^ by_split[1])
    if odd:
        raise UserError(
            f"{path}: the classes {', '.join(odd[:5])} are in only one of train and test",
            hint="Every class needs a folder in both.",
        )
    if not by_split[0]:
        raise UserError(f"{path}: train has no class folders", hint="The layout is train/CLASS/IMAGE.")
    return sorted(by_split[0])


def _files(path: Path, split: str, classes: list[str]) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for c, name in enumerate(classes):
        folder = path / split / name
        images = sorted(p for p in folder.iterdir() if not p.name.startswith(".") and p.name.lower() not in LITTER)
        nested = next((p for p in images if p.is_dir()), None)
        if nested is not None:
            raise UserError(f"{nested} is a folder inside a class", hint="Images lie directly in their class's folder.")
        if not images:
            raise UserError(f"{folder} has no images", hint="Every class needs training and test images.")
        found += [(p.relative_to(path).as_posix(), c) for p in images]
    return found
