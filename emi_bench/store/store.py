"""The truth: one small Parquet file a run, written once. Done = the file exists."""

from __future__ import annotations

import errno
import io
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from emi_bench.errors import UserError
from emi_bench.store.files import Files
from emi_bench.store.leases import Claims
from emi_bench.store.reading import curve_table, what_is_wrong
from emi_bench.store.schema import ANYTIME, FEATURES, to_table

if TYPE_CHECKING:
    from emi_bench.run.result import FeatureTable, RunResult
    from emi_bench.run.spec import RunSpec

CHECKPOINTS = "_checkpoints"
CUT_SHORT = "it is cut short"
_RESULT = re.compile(r"-([0-9a-f]{64})\.parquet$")


class DamagedFile(UserWarning):
    """A file that cannot be read."""


class Store:
    """A results root. Everything that is not a result lies under a name that starts with `_`, which readers skip."""

    def __init__(self, root: str | Path, files: Files | None = None) -> None:
        self.files = files or Files(root)
        self.claims = Claims(self.files)
        self._whole: dict[str, bool] = {}  #: of files that were looked at: whether they have their end

    @staticmethod
    def path(spec: RunSpec) -> str:
        """`cifar10/emi/variant-m500-s3-<run_id>.parquet`"""
        folder = f"{_plain(spec.dataset)}/{_plain(spec.method)}"
        variant = f"{_plain(spec.variant)}-" if spec.variant else ""
        return f"{folder}/{variant}m{spec.memory}-s{spec.seed}-{spec.run_id}.parquet"

    def results(self) -> dict[str, str]:
        """Path of every result by its run_id, from file names alone; without those cut short, which are named once.
        Asked again, only what is new is opened.
        """
        found = ((_RESULT.search(path), path) for path in self.files.list(hidden=False))
        return {match[1]: path for match, path in found if match and self._sound(path)}

    def beside(self) -> set[str]:
        """The files that runs left beside their results: features, and accuracy while the stream ran."""
        return {p for folder in (FEATURES, ANYTIME) for p in self.files.list(folder, recursive=False)}

    def done(self, spec: RunSpec) -> bool:
        """Whether the run is there, with all that it is to leave beside its result."""
        return self.find(spec) is not None and all(map(self.files.exists, side_paths(spec)))

    def find(self, spec: RunSpec) -> str | None:
        """The result's path; another sweep may have given the same run another variant name."""
        path = self.path(spec)
        if self.files.exists(path) and self._sound(path):
            return path
        return next((p for p in self._named(spec) if self._sound(p)), None)

    def _named(self, spec: RunSpec) -> list[str]:
        """The files of a run, under whatever variant name."""
        ending = f"-{spec.run_id}.parquet"
        return [p for p in self.files.list(self.path(spec).rpartition("/")[0], recursive=False) if p.endswith(ending)]

    def write(self, result: RunResult) -> str:
        """Store a result, first what lies beside it, so that a result that has some is never without.

        A result is written once: where it is there already (features were asked for later), it stays as it is. A
        damaged one is set aside: now there is one to take its place.
        """
        if result.curve is not None:
            self.put(anytime_path(result.spec.run_id), _parquet(curve_table(result.curve, result.spec.anytime)))
        if result.features is not None:
            self.put(feature_path(result.spec.run_id), _parquet(_feature_table(result.features)))
        path = self.find(result.spec)
        if path is None:
            for damaged in self._named(result.spec):
                self.set_aside(damaged, CUT_SHORT)
            path = self.path(result.spec)
            self.put(path, _parquet(to_table(result)))
        return self.files.full(path)

    def damaged(self) -> dict[str, str]:
        """Results and features that cannot be read, by path, with what is wrong; all of them are read."""
        files = [p for p in self.files.list(hidden=False) if _RESULT.search(p)]
        files += sorted(self.beside())
        told = {p: what_is_wrong(self.files.read(p) or b"", p.partition("/")[0]) for p in files}
        return {path: why for path, why in told.items() if why}

    def warn_damaged(self, path: str, why: str, remedy: str = "") -> None:
        """For readers: name a damaged file, what is wrong with it and what can be done; it stays where it is."""
        remedy = remedy or "`emi-bench clean --damaged` sets it aside, and the next sweep does its run again"
        warnings.warn(f"{self.files.full(path)} is left out: {why}. {remedy}", DamagedFile, stacklevel=3)

    def set_aside(self, path: str, why: str) -> None:
        """For writers that are about to redo a run: move a damaged file to `_damaged/`, and say so."""
        to = f"_damaged/{path.replace('/', '__')}"
        self.files.move(path, to)
        self._whole.pop(path, None)
        at = self.files.full
        warnings.warn(f"{at(path)} was damaged ({why}); it now lies at {at(to)}", DamagedFile, stacklevel=2)

    def _sound(self, path: str) -> bool:
        """Whether a result has its end. An object in a bucket is whole or not there."""
        if self.files.remote or self._whole.get(path):
            return True
        told = path in self._whole
        try:
            self._whole[path] = self.files.tail(path, 4) == b"PAR1"
        except FileNotFoundError:  # set aside by another meanwhile
            return False
        if not self._whole[path] and not told:
            self.warn_damaged(path, CUT_SHORT, "The next sweep that names its run does it again")
        return self._whole[path]

    def put(self, path: str, content: bytes) -> None:
        """Write a file of a run; a full disk says how to go on."""
        try:
            self.files.write(path, content)
        except OSError as e:
            full = e.errno in (errno.ENOSPC, errno.EDQUOT)
            raise UserError(
                f"cannot write {self.files.full(path)}: {'the disk is full' if full else e.strerror or e}",
                hint="nothing half-written was left; make room and give the same command again: "
                "it goes on from the last finished task",
            ) from e


def checkpoint_path(run_id: str) -> str:
    return f"{CHECKPOINTS}/{run_id}.pt"


def feature_path(run_id: str) -> str:
    return f"{FEATURES}/{run_id}.parquet"


def anytime_path(run_id: str) -> str:
    return f"{ANYTIME}/{run_id}.parquet"


def side_paths(spec: RunSpec) -> list[str]:
    """What a run is to leave beside its result."""
    asked = {feature_path: spec.features, anytime_path: spec.anytime is not None}
    return [path(spec.run_id) for path, wanted in asked.items() if wanted]


def _plain(name: str) -> str:
    """A name that is a file name everywhere."""
    return re.sub(r"[^A-Za-z0-9_.+=-]+", "-", name).strip("-_.") or "unnamed"


def _parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd", write_page_checksum=True)
    return out.getvalue()


def _feature_table(features: FeatureTable) -> pa.Table:
    columns: dict[str, Any] = {"split": features.split, "label": features.label, "task": features.task}
    columns |= {f"f{i}": features.features[:, i] for i in range(features.features.shape[1])}
    return pa.table(columns)
