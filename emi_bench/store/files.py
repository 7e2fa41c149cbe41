"""Bytes under a results root: a folder, or a bucket (`s3://`, `gs://`) through pyarrow. Writes are all or nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlparse

from pyarrow import fs

from emi_bench.errors import UserError
from emi_bench.store.processes import tag


class Files:
    """A root and the few operations the store needs of it. Paths are relative, with `/`."""

    def __init__(self, root: str | Path) -> None:
        text = str(root)
        self.remote = bool(urlparse(text).scheme) and "://" in text and not text.startswith("file://")
        if self.remote:
            try:
                self.fs, self.base = fs.FileSystem.from_uri(text)
            except Exception as e:
                raise UserError(
                    f"cannot open {text}: {e}", hint="results is a folder, or an s3:// or gs:// address"
                ) from e
            self.uri = text.rstrip("/")
        else:
            path = Path(text.removeprefix("file://")).expanduser().absolute()
            self.fs, self.base, self.uri = fs.LocalFileSystem(), str(path), str(path)

    def full(self, path: str) -> str:
        return f"{self.base}/{path}" if path else self.base

    def exists(self, path: str) -> bool:
        return bool(self.fs.get_file_info(self.full(path)).type == fs.FileType.File)

    def read(self, path: str) -> bytes | None:
        """The whole file, or None where there is none."""
        try:
            with self.fs.open_input_file(self.full(path)) as f:
                content: bytes = f.read()
                return content
        except FileNotFoundError:
            return None

    def tail(self, path: str, n: int) -> bytes:
        with self.fs.open_input_file(self.full(path)) as f:
            f.seek(max(0, f.size() - n))
            content: bytes = f.read()
            return content

    def list(self, folder: str = "", *, recursive: bool = True, hidden: bool = True) -> list[str]:
        """Files below a folder, sorted; none where the folder is missing. Without `hidden`, none whose path has a part
        that begins with `_` or a dot."""
        if not self.remote:
            return sorted(self._walk(folder, recursive, hidden))
        selector = fs.FileSelector(self.full(folder), recursive=recursive, allow_not_found=True)
        start = len(self.base) + 1
        found = [i.path[start:] for i in self.fs.get_file_info(selector) if i.type == fs.FileType.File]
        return sorted(p for p in found if hidden or not any(part.startswith(("_", ".")) for part in p.split("/")))

    def _walk(self, folder: str, recursive: bool, hidden: bool) -> Iterator[str]:
        """On a disk a folder tells which of its entries are files: pyarrow would ask for each of them again."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(self.full(folder)) as entries:
            for entry in entries:
                if not hidden and entry.name.startswith(("_", ".")):
                    continue
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_file():
                    yield path
                elif recursive and entry.is_dir():
                    yield from self._walk(path, recursive, hidden)

    def write(self, path: str, content: bytes) -> None:
        """All or nothing: temp file, fsync and rename on a disk; one object put elsewhere. The temp file names its
        process, so that what a killed one leaves is known to be nobody's."""
        if self.remote:
            with self.fs.open_output_stream(self.full(path)) as out:
                out.write(content)
            return
        target = Path(self.full(path))
        self.make_folder(target.parent)
        temp = target.parent / f"_{target.name}.{tag()}.tmp"
        try:
            with open(temp, "wb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
            temp.replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                temp.unlink()
            raise
        self._sync_folder(target.parent)

    def create(self, path: str, make: Callable[[], bytes]) -> bool:
        """Make a file on a disk; False where there is one: of all who try, exactly one succeeds."""
        target = Path(self.full(path))
        self.make_folder(target.parent)
        try:
            fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            return False
        try:
            os.write(fd, make())
        except OSError:
            with contextlib.suppress(OSError):
                target.unlink()
            raise
        finally:
            os.close(fd)
        return True

    def amend(self, path: str, change: Callable[[bytes], bytes]) -> bool:
        """Write anew what a file says; False where there is none. Neither atomic nor durable, and on a disk it is done
        in place: a file that is deleted meanwhile stays deleted, and nothing is left by a process that is killed."""
        if self.remote:
            content = Files.read(self, path)  # without patience
            if content is not None:
                Files.write(self, path, change(content))
            return content is not None
        try:
            with open(self.full(path), "r+b", buffering=0) as file:
                old = file.read()
                new = change(old)
                file.seek(0)
                file.write(new.ljust(len(old)))
        except FileNotFoundError:
            return False
        return True

    def see_root(self) -> None:
        """Raises where what seems to be missing may only be a root that is gone; see `PatientFiles`."""

    def modified(self, path: str) -> float:
        """When a file was last written, in seconds; 0 where it is not there."""
        changed = self.fs.get_file_info(self.full(path)).mtime
        return float(changed.timestamp()) if changed is not None else 0.0

    def make_folder(self, folder: Path) -> None:
        """A local folder, for a file to be written into."""
        folder.mkdir(parents=True, exist_ok=True)

    @staticmethod
    def _sync_folder(folder: Path) -> None:
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def move(self, path: str, to: str) -> None:
        folder = to.rpartition("/")[0]
        if folder:
            self.fs.create_dir(self.full(folder), recursive=True)
        self.fs.move(self.full(path), self.full(to))

    def delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.fs.delete_file(self.full(path))

    def check_writable(self) -> None:
        """Write and remove a file, so that an unwritable place is known before any work is done."""
        probe = f"_probe.{tag()}.tmp"
        try:
            self.write(probe, b"emi-bench")
            self.delete(probe)
        except OSError as e:
            raise self.unwritable(e) from e

    def unwritable(self, error: OSError) -> UserError:
        """What to say of a place that takes no results."""
        mend = "see that the bucket exists and the credentials are right" if self.remote else "make this one writable"
        return UserError(
            f"cannot write results to {self.uri}: {error.strerror or error}",
            hint=f"choose another place with --results, or {mend}",
        )
