"""Fetches the published archives, by torchvision: asked for, with a bar, checked, and there only when whole."""

from __future__ import annotations

import http.client
import io
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr
from pathlib import Path
from urllib.request import url2pathname

from emi_bench.data.archives import Remote, md5_of
from emi_bench.data.catalogue import get_source
from emi_bench.data.own import is_own
from emi_bench.data.places import data_root
from emi_bench.errors import UserError

TIMEOUT = 60  #: seconds without a byte


def download(name: str, root: Path | None = None, *, progress: bool = True, url: str | None = None) -> str:
    """Bring the archive of a data set under the root, unless it is there and whole; returns where the data is.

    `url` (or $EMI_BENCH_URL_NAME, for example EMI_BENCH_URL_CIFAR10) names another address, or a local file, with the
    same content, such as a mirror inside an institute.
    """
    folder = data_root(root)
    if is_own(name):
        raise UserError(f"{name} is your own data", hint="There is nothing to download: it is read where it is.")
    source = get_source(name)
    if (remote := source.remote) is None:
        return source.find(folder) or str(folder)
    target = folder / remote.filename
    if target.is_file() and md5_of(target) == remote.md5:
        return str(target)
    address = url or os.environ.get(f"EMI_BENCH_URL_{name.upper()}") or remote.url
    hint = (
        f"Try again; or name a mirror with EMI_BENCH_URL_{name.upper()}=ADDRESS;\n"
        f"or bring {remote.filename} here by other means and put it under {folder}"
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _fetch(address, target, remote, progress)
    except (OSError, ValueError, RecursionError, http.client.HTTPException) as e:
        raise UserError(f"{name} could not be downloaded from {address}: {e}", hint=hint) from e
    except RuntimeError as e:  # what torchvision says of a wrong md5
        told = f"what came from {address} is cut short or is not {remote.filename}: its md5 is not {remote.md5[:12]}…"
        raise UserError(f"{told}; it was thrown away", hint=hint) from e
    return str(target)


def _fetch(address: str, target: Path, remote: Remote, progress: bool) -> None:
    free = shutil.disk_usage(target.parent).free
    if free < remote.megabytes * 1e6:
        raise UserError(
            f"{target.parent} has {free / 1e6:.0f} MB free, the archive has {remote.megabytes} MB",
            hint="Make room, or choose another folder: --data-root DIR.",
        )
    from torchvision.datasets.utils import check_integrity, download_url

    # torchvision writes under the final name and checks afterwards: it does so in a folder of its own.
    with (
        tempfile.TemporaryDirectory(dir=target.parent, prefix=".download-") as partial,
        nullcontext() if progress else redirect_stderr(io.StringIO()),
        _patience(TIMEOUT),
    ):
        if "://" in address and not address.startswith("file:"):
            download_url(address, partial, target.name, remote.md5)
        else:  # a file is all that download_url cannot fetch
            local = url2pathname(address.removeprefix("file://")) if "://" in address else address
            shutil.copyfile(Path(local).expanduser(), Path(partial, target.name))
            if not check_integrity(Path(partial, target.name), remote.md5):
                raise RuntimeError(address)
        Path(partial, target.name).replace(target)


@contextmanager
def _patience(seconds: float) -> Iterator[None]:
    """A server that says nothing for so long is an error; torchvision would wait for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
