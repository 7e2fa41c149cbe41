"""Fetches the published archives: asked for, with a bar, checked, and there only when whole.

The addresses and checksums are torchvision's. Its own download function is not used because it writes to the final name
first and checks afterwards, and its bar cannot be silenced.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from emi_bench.data import tinyimagenet
from emi_bench.data.archives import md5_of
from emi_bench.data.cache import replacing
from emi_bench.data.catalogue import get_source
from emi_bench.data.cifar import CIFAR10, CIFAR100
from emi_bench.data.own import is_own
from emi_bench.data.places import data_root
from emi_bench.errors import UserError

CHUNK = 1 << 18
TIMEOUT = 60  #: seconds without a byte


@dataclass(frozen=True)
class Remote:
    """A published archive."""

    filename: str
    md5: str
    url: str


def remote_of(name: str) -> Remote | None:
    """The archive behind a name; None if there is nothing to download."""
    for cifar in (CIFAR10, CIFAR100):
        if name == cifar.info.name:
            return Remote(cifar.archive, cifar.archive_md5, cifar.url)
    if name == "tinyimagenet":
        return Remote(tinyimagenet.ARCHIVE, tinyimagenet.ARCHIVE_MD5, tinyimagenet.URL)
    return None


def download(name: str, root: Path | None = None, *, progress: bool = True, url: str | None = None) -> str:
    """Bring the archive of a data set under the root, unless it is there and whole; returns where the data is.

    `url` (or $EMI_BENCH_URL_NAME, for example EMI_BENCH_URL_CIFAR10) names another address, or a local file, with the
    same content, such as a mirror inside an institute.
    """
    folder = data_root(root)
    if is_own(name):
        raise UserError(f"{name} is your own data", hint="There is nothing to download: it is read where it is.")
    source, remote = get_source(name), remote_of(name)
    if remote is None:
        return source.find(folder) or str(folder)
    target = folder / remote.filename
    if target.is_file() and md5_of(target) == remote.md5:
        return str(target)
    address = url or os.environ.get(f"EMI_BENCH_URL_{name.upper()}") or remote.url
    try:
        with _opened(address) as stream, replacing(target) as file:
            found = _copy(stream, file, folder, source.info.title if progress else None)
            if found != remote.md5:
                raise UserError(
                    f"what came from {address} is not {remote.filename}: "
                    f"md5 {found[:12]}…, expected {remote.md5[:12]}…; it was thrown away",
                    hint=_other_way(name, remote, folder),
                )
    except (OSError, ValueError, http.client.HTTPException) as e:
        raise UserError(
            f"{name} could not be downloaded from {address}: {e}", hint=_other_way(name, remote, folder)
        ) from e
    return str(target)


def _other_way(name: str, remote: Remote, folder: Path) -> str:
    return (
        f"Try again; or name a mirror with EMI_BENCH_URL_{name.upper()}=ADDRESS;\n"
        f"or bring {remote.filename} here by other means and put it under {folder}"
    )


def _opened(address: str) -> IO[bytes]:
    if "://" not in address:
        return Path(address).expanduser().open("rb")
    request = urllib.request.Request(address, headers={"User-Agent": "emi-bench"})
    stream: IO[bytes] = urllib.request.urlopen(request, timeout=TIMEOUT)
    return stream


def _copy(stream: IO[bytes], file: IO[bytes], folder: Path, title: str | None) -> str:
    """Copies, shows a bar under `title` if there is one, and returns the md5 of what came."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    size = int(headers.get("Content-Length") or 0) if (headers := getattr(stream, "headers", None)) else 0
    free = shutil.disk_usage(folder).free
    if size > free:
        raise UserError(
            f"{folder} has {free / 1e6:.0f} MB free, the archive has {size / 1e6:.0f} MB",
            hint="Make room, or choose another folder: --data-root DIR.",
        )
    digest, done = hashlib.md5(usedforsecurity=False), 0
    columns = ("{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=title is None) as bar:
        task = bar.add_task(title or "", total=size or None)
        while chunk := stream.read(CHUNK):
            file.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            bar.advance(task, len(chunk))
    if size and done < size:
        raise OSError(f"the connection ended after {done} of {size} bytes")
    return digest.hexdigest()
