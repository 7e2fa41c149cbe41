"""A user's own data, named by where it is: npz:PATH, folder:PATH, tiny:PATH."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from emi_bench.data import folder, tinyimagenet
from emi_bench.data.arrays import Arrays
from emi_bench.data.cache import Cache
from emi_bench.data.dataset import DataSet
from emi_bench.data.info import DataInfo, info_of, own_title
from emi_bench.data.npz import read_npz
from emi_bench.errors import UserError


@dataclass(frozen=True)
class Kind:
    """One form of own data."""

    what: str
    read: Callable[[Path], Arrays]
    takes: Callable[[Path], bool]
    signature: Callable[[Path], str] | None  #: of its content, where reading is slow enough for a cache


KINDS = {
    "npz": Kind("a .npz file", read_npz, Path.is_file, None),
    "folder": Kind("a folder with train/CLASS/IMAGE and test/CLASS/IMAGE", folder.read, Path.is_dir, folder.signature),
    "tiny": Kind("a zip or folder laid out as Tiny-ImageNet", tinyimagenet.read, Path.exists, tinyimagenet.signature),
}
OWN_FORMS = {f"{prefix}:PATH": kind.what for prefix, kind in KINDS.items()}

# Planning asks for the same data set once a cell. A file's time and size are in the key; a folder's do not show that a
# file deep inside changed, so loading it corrects the entry.
_known: dict[tuple[Kind, Path, int, int], DataInfo] = {}


def is_own(name: str) -> bool:
    prefix, colon, _ = name.partition(":")
    return bool(colon) and prefix in KINDS


def get_own_info(name: str, root: Path) -> DataInfo:
    """Classes, size, fingerprint, mean and std. The first call in a process may have to read the data, no later one."""
    kind, path = _located(name)
    key = _key(kind, path)
    if key not in _known:
        info = Cache(root, path, kind.signature(path)).info() if kind.signature else None
        _known[key] = info or info_of(own_title(path), _arrays(kind, path, root, True))
    return _known[key]


def load_own(name: str, root: Path, cached: bool = True) -> DataSet:
    """The data set, under the name that its `DataInfo` has."""
    kind, path = _located(name)
    key, arrays = _key(kind, path), _arrays(kind, path, root, cached)
    if key in _known:
        data = DataSet.from_arrays(_known[key], arrays)
        if data.info == _known[key]:
            return data
    _known[key] = info_of(own_title(path), arrays)
    return DataSet.from_arrays(_known[key], arrays)


def find_own(name: str) -> str:
    """The absolute path behind a name; an error if nothing of its kind is there."""
    return str(_located(name)[1])


def _located(name: str) -> tuple[Kind, Path]:
    prefix, _, text = name.partition(":")
    kind, path = KINDS[prefix], Path(text).expanduser().absolute()
    if not text or not kind.takes(path):
        state = "nothing is there" if not path.exists() else "what is there is something else"
        raise UserError(
            f"{name}: looked for {kind.what} at {path}; {state}", hint=f"{prefix}:PATH takes the path of {kind.what}."
        )
    return kind, path


def _key(kind: Kind, path: Path) -> tuple[Kind, Path, int, int]:
    stat = path.stat()
    return kind, path, stat.st_mtime_ns, stat.st_size


def _arrays(kind: Kind, path: Path, root: Path, cached: bool) -> Arrays:
    if kind.signature is not None and cached:
        return Cache(root, path, kind.signature(path)).arrays(lambda: kind.read(path))
    return kind.read(path)
