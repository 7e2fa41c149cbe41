"""A data set by its name: load it, verify it, list what is there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from emi_bench.data.archives import md5_of
from emi_bench.data.catalogue import Source, dataset_names, get_source
from emi_bench.data.dataset import DataSet
from emi_bench.data.downloading import download as fetch
from emi_bench.data.own import find_own, is_own, load_own
from emi_bench.data.places import data_root
from emi_bench.data.reduce import Reduction
from emi_bench.errors import UserError


def load(name: str, root: Path | None = None, download: bool = False, reduction: Reduction | None = None) -> DataSet:
    """A data set as uint8 tensors on the host. Nothing is downloaded unless `download` says so and it is absent.

    The content is checked before it is reduced, so that a part of CIFAR-10 is a part of the published one.

    >>> data = load("digits")
    >>> tuple(data.x_train.shape), tuple(data.x_test.shape), data.n_classes
    ((1400, 3, 8, 8), (397, 3, 8, 8), 10)
    """
    folder = data_root(root)
    if download and not is_own(name) and get_source(name).find(folder) is None:
        fetch(name, folder)
    data = _load(name, folder, cached=True)
    return data if reduction is None else reduction.apply(data)


def _load(name: str, folder: Path, cached: bool) -> DataSet:
    try:
        if is_own(name):
            return load_own(name, folder, cached)
        source = get_source(name)
        data = source.load(folder, cached)
    except OSError as e:
        raise UserError(f"{name} cannot be read: {e}", hint="Check that the file is there and may be read.") from e
    _confirm(source, data, source.find(folder) or str(folder))
    known, found = source.info, data.info  # a plugin's loader may have told no more than a name
    found = replace(found, name=known.name, title=known.title, n_tasks=known.n_tasks, mean=known.mean, std=known.std)
    return replace(data, info=found)


def _confirm(source: Source, data: DataSet, where: str) -> None:
    """Refuses data that is not what its name says."""
    info = source.info
    own = where if where.endswith(".npz") else "PATH"
    hint = (
        f"A subset or a changed copy runs under a name of its own: --dataset npz:{own}\n"
        f"For the real one: delete that file, then emi-bench data download {info.name}"
        if source.remote
        else "The loader and the registered DataInfo disagree: correct one of them."
    )
    for split, expected in (("train", info.train_sha256), ("test", info.test_sha256)):
        found = getattr(data.info, f"{split}_sha256")
        if expected and found != expected:
            raise UserError(
                f"{where} is not {info.title or info.name}: the fingerprint of its {split} images is {found[:12]}…, "
                f"expected {expected[:12]}…\n({len(data.y_train)} training and {len(data.y_test)} test images of "
                f"{data.n_classes} classes found, {info.n_train} and {info.n_test} of {info.n_classes} expected)",
                hint=hint,
            )
    if (data.n_classes, data.image_size) != (info.n_classes, info.image_size):
        raise UserError(
            f"{where} is not {info.title or info.name}: {data.n_classes} classes of {data.image_size} px found, "
            f"{info.n_classes} of {info.image_size} px expected",
            hint=hint,
        )


@dataclass(frozen=True)
class Verdict:
    """What `verify` found."""

    name: str
    ok: bool
    where: str | None  #: None: not there
    fingerprint: str | None  #: of the content, where it could be read
    detail: str


def verify(name: str, root: Path | None = None) -> Verdict:
    """Read a data set from its source, past any cache, and say whether it is whole and what it should be."""
    folder = data_root(root)
    where = None if is_own(name) else get_source(name).find(folder)
    try:
        where = find_own(name) if is_own(name) else where
        data = _load(name, folder, cached=False)
    except UserError as e:
        return Verdict(name, False, where, None, str(e))
    return Verdict(name, True, where, data.fingerprint, _detail(name, data, where))


def _detail(name: str, data: DataSet, where: str | None) -> str:
    counts = f"{len(data.y_train)} training and {len(data.y_test)} test images of {data.n_classes} classes"
    if is_own(name):
        return f"readable: {counts}"
    if get_source(name).info.fingerprint:
        return f"fingerprint as expected: {counts}"
    remote = get_source(name).remote
    if remote and where and Path(where).is_file():
        published = md5_of(Path(where)) == remote.md5
        return f"{'the published archive' if published else 'complete, but not the published archive'}: {counts}"
    return f"complete: {counts}"


def describe(root: Path | None = None) -> list[dict[str, Any]]:
    """One row a data set, for a table: name, title, classes, tasks, image_size, train, test, found (None: missing)."""
    folder, rows = data_root(root), []
    for name in dataset_names():
        source = get_source(name)
        info = source.info
        rows.append(
            {
                "name": name,
                "title": info.title or name,
                "classes": info.n_classes,
                "tasks": info.n_tasks,
                "image_size": info.image_size,
                "train": info.n_train,
                "test": info.n_test,
                "found": source.find(folder),
            }
        )
    return rows
