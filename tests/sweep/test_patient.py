from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from emi_bench.store.leases import Claims
from emi_bench.store.patient import MARKER, PatientFiles, StoreGone


@pytest.fixture
def files(tmp_path: Path) -> PatientFiles:
    made = PatientFiles(tmp_path / "results", patience=10)
    made.mark()
    return made


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"a file system of its own may not be mounted here: {done.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_vanished_root_is_waited_for_and_never_made_anew(files: PatientFiles) -> None:
    root = Path(files.base)
    files.write("a", b"1")
    root.rename(root.with_name("away"))
    back = threading.Timer(0.7, lambda: root.with_name("away").rename(root))
    back.start()
    began = time.monotonic()
    files.write("folder/b", b"2")
    assert time.monotonic() - began > 0.5
    back.join()
    assert files.list() == [MARKER, "a", "folder/b"]


def test_what_a_vanished_root_held_is_not_taken_for_missing(files: PatientFiles) -> None:
    root = Path(files.base)
    files.write("a", b"1")
    root.rename(root.with_name("away"))
    root.mkdir()  # an unmounted share leaves an empty folder
    with pytest.raises(StoreGone):
        PatientFiles(root, patience=0.2).exists("a")
    root.rmdir()
    root.with_name("away").rename(root)
    assert files.exists("a")


def test_a_missing_file_is_no_reason_to_wait(files: PatientFiles) -> None:
    began = time.monotonic()
    assert files.read("nothing") is None
    with pytest.raises(FileNotFoundError):
        files.tail("nothing", 4)
    assert time.monotonic() - began < 2


@contextlib.contextmanager
def full_for_a_moment(disk: Path) -> Iterator[None]:
    """What is done inside ends after there was room."""
    filler = disk / "filler"
    with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as out:
        while True:
            out.write(b"x" * 4096)
    room = threading.Timer(0.8, filler.unlink)
    room.start()
    began = time.monotonic()
    yield
    assert time.monotonic() - began > 0.5
    room.join()


def test_a_full_disk_is_waited_for_and_leaves_nothing_half_written(small_disk: Path) -> None:
    files = PatientFiles(small_disk, patience=20)
    files.mark()
    with full_for_a_moment(small_disk):
        files.write("_checkpoints/a.pt", b"y" * 100_000)
    assert files.list() == ["_checkpoints/a.pt", MARKER]
    assert files.read("_checkpoints/a.pt") == b"y" * 100_000


def test_a_claim_waits_for_a_full_disk_too_and_lives_from_then_on(small_disk: Path) -> None:
    files = PatientFiles(small_disk, patience=20)
    files.mark()
    with full_for_a_moment(small_disk):
        claim = Claims(files, ttl=0.5).acquire("a", owner="me")
    assert claim is not None
    assert Claims(files).acquire("a", owner="another") is None


def test_a_disk_that_stays_full_is_an_error_in_the_end(small_disk: Path) -> None:
    files = PatientFiles(small_disk, patience=0.5)
    files.mark()
    with pytest.raises(OSError, match="No space"):
        files.write("a", b"y" * 1_000_000)
    assert files.list() == [MARKER]
