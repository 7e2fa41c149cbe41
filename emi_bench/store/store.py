"""The truth: one small Parquet file a run, written once. Done = the file exists."""

from __future__ import annotations

import errno
import io
import re
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from emi_bench.errors import UserError
from emi_bench.run.features import FeatureTable
from emi_bench.run.loop import CHECKPOINT_FORMAT, RunResult
from emi_bench.run.spec import RunSpec
from emi_bench.store.files import Files
from emi_bench.store.schema import to_table

_RESULT = re.compile(r"-([0-9a-f]{64})\.parquet$")


class DamagedFile(UserWarning):
    """A result that cannot be read; it has been set aside and its run counts as missing."""


class Store:
    """A results root. Everything that is not a result lies under a name that starts with `_`, which readers skip."""

    def __init__(self, root: str | Path) -> None:
        self.files = Files(root)

    # --- results -------------------------------------------------------------------------------------------------

    @staticmethod
    def path(spec: RunSpec) -> str:
        """`cifar10/emi/variant-m500-s3-<run_id>.parquet`"""
        folder = f"{_plain(spec.dataset)}/{_plain(spec.method)}"
        variant = f"{_plain(spec.variant)}-" if spec.variant else ""
        return f"{folder}/{variant}m{spec.memory}-s{spec.seed}-{spec.run_id}.parquet"

    def results(self) -> dict[str, str]:
        """Path of every result by its run_id, from file names alone. Files cut short are set aside."""
        found: dict[str, str] = {}
        for path in self.files.list():
            if any(part.startswith(("_", ".")) for part in path.split("/")):
                continue
            if (match := _RESULT.search(path)) and self._sound(path):
                found[match[1]] = path
        return found

    def featured(self) -> set[str]:
        """Ids of the runs whose features are there."""
        paths = self.files.list("_features", recursive=False)
        return {name.removesuffix(".parquet") for name in (p.rpartition("/")[2] for p in paths)}

    def done(self, spec: RunSpec) -> bool:
        """Whether the run is there, with its features where it asks for them."""
        path = self.find(spec)
        return path is not None and (not spec.features or self.files.exists(feature_path(spec.run_id)))

    def find(self, spec: RunSpec) -> str | None:
        """The result's path; another sweep may have given the same run another variant name."""
        path = self.path(spec)
        if self.files.exists(path) and self._sound(path):
            return path
        folder = path.rpartition("/")[0]
        ending = f"-{spec.run_id}.parquet"
        same = (p for p in self.files.list(folder, recursive=False) if p.endswith(ending))
        return next((p for p in same if self._sound(p)), None)

    def write(self, result: RunResult) -> str:
        """Store a result, its features first, so that a result with features is never without them.

        A result is written once: where it is there already (features were asked for later), it stays as it is.
        """
        if result.features is not None:
            self._put(feature_path(result.spec.run_id), _parquet(_feature_table(result.features)))
        path = self.find(result.spec)
        if path is None:
            path = self.path(result.spec)
            self._put(path, _parquet(to_table(result)))
        return self.files.full(path)

    def set_aside(self, path: str, why: str) -> None:
        """Move a damaged file to `_damaged/` and say so; its run counts as missing."""
        to = f"_damaged/{path.replace('/', '__')}"
        self.files.move(path, to)
        at = self.files.full
        told = f"{at(path)} is damaged ({why}); it now lies at {at(to)}, and its run counts as missing"
        warnings.warn(told, DamagedFile, stacklevel=2)

    def _sound(self, path: str) -> bool:
        """Whether a result has its end; one cut short is set aside. An object in a bucket is whole or not there."""
        if self.files.remote or self.files.tail(path, 4) == b"PAR1":
            return True
        self.set_aside(path, "it is cut short")
        return False

    def _put(self, path: str, content: bytes) -> None:
        try:
            self.files.write(path, content)
        except OSError as e:
            full = e.errno in (errno.ENOSPC, errno.EDQUOT)
            raise UserError(
                f"cannot write {self.files.full(path)}: {'the disk is full' if full else e.strerror or e}",
                hint="nothing half-written was left; make room and give the same command again: "
                "it goes on from the last finished task",
            ) from e

    # --- checkpoints ---------------------------------------------------------------------------------------------

    def save_checkpoint(self, run_id: str, checkpoint: dict[str, Any]) -> None:
        """Replace the run's checkpoint."""
        buffer = io.BytesIO()
        torch.save(checkpoint, buffer)
        self._put(checkpoint_path(run_id), buffer.getvalue())

    def load_checkpoint(self, run_id: str) -> dict[str, Any] | None:
        """The run's last checkpoint; None where there is none. A damaged one is set aside."""
        content = self.files.read(checkpoint_path(run_id))
        if content is None:
            return None
        try:
            checkpoint: dict[str, Any] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        except Exception as e:
            self.set_aside(checkpoint_path(run_id), f"not a checkpoint: {type(e).__name__}")
            return None
        if checkpoint["format"] != CHECKPOINT_FORMAT:
            self.set_aside(checkpoint_path(run_id), f"of another program version: format {checkpoint['format']}")
            return None
        return checkpoint

    def drop_checkpoint(self, run_id: str) -> None:
        self.files.delete(checkpoint_path(run_id))


def checkpoint_path(run_id: str) -> str:
    return f"_checkpoints/{run_id}.pt"


def feature_path(run_id: str) -> str:
    return f"_features/{run_id}.parquet"


def _plain(name: str) -> str:
    """A name that is a file name everywhere."""
    return re.sub(r"[^A-Za-z0-9_.+=-]+", "-", name).strip("-_.") or "unnamed"


def _parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd")
    return out.getvalue()


def _feature_table(features: FeatureTable) -> pa.Table:
    columns: dict[str, Any] = {"split": features.split, "label": features.label, "task": features.task}
    columns |= {f"f{i}": features.features[:, i] for i in range(features.features.shape[1])}
    return pa.table(columns)
