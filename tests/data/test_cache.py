"""Decoded images are kept, never half-written, never stale, and never in the way."""

from __future__ import annotations

import errno
import logging
import multiprocessing
from pathlib import Path

import numpy as np
import pytest

from emi_bench import data
from emi_bench.data import cache
from emi_bench.data.cache import Cache, replacing
from tests.data.fakes import image_folder, tiny_files, write_zip


def _kept(root: Path) -> list[Path]:
    return sorted((root / cache.FOLDER).glob("*.npz"))


def test_damaged_cache_is_made_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    name = f"folder:{image_folder(tmp_path / 'farm')}"
    first = data.load(name, tmp_path)
    (kept,) = _kept(tmp_path)
    whole = kept.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", whole[:400] + b"\xff" * 8 + whole[408:]):
        kept.write_bytes(damaged)
        with caplog.at_level(logging.WARNING):
            assert data.load(name, tmp_path).fingerprint == first.fingerprint
        assert "is damaged" in caplog.text
        caplog.clear()
        assert kept.stat().st_size == len(whole)


def test_new_content_replaces_the_old_cache(tmp_path: Path) -> None:
    path = tmp_path / "mini.zip"
    for classes in (3, 4):
        write_zip(path, tiny_files(classes))
        assert data.load(f"tiny:{path}", tmp_path).n_classes == classes
        assert len(_kept(tmp_path)) == 1


def test_two_sources_of_one_name_do_not_share_a_cache(tmp_path: Path) -> None:
    for place, classes in (("a", 3), ("b", 4)):
        (tmp_path / place).mkdir()
        write_zip(tmp_path / place / "mini.zip", tiny_files(classes))
    for _ in range(2):
        assert data.load(f"tiny:{tmp_path / 'a' / 'mini.zip'}", tmp_path).n_classes == 3
        assert data.load(f"tiny:{tmp_path / 'b' / 'mini.zip'}", tmp_path).n_classes == 4
    assert len(_kept(tmp_path)) == 2


def test_full_disk_costs_the_cache_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(file: object, **content: np.ndarray) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    name = f"folder:{image_folder(tmp_path / 'farm')}"
    assert data.load(name, tmp_path).n_classes == 3
    assert "No space left" in caplog.text
    assert not list(tmp_path.rglob("*.part"))
    assert not _kept(tmp_path)


def test_root_that_cannot_be_made_costs_the_cache_and_not_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    name = f"folder:{image_folder(tmp_path / 'farm')}"
    assert data.load(name, tmp_path / "file").n_classes == 3
    assert data.get_info(name, tmp_path / "file").n_classes == 3


def test_interrupted_writer_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"old")

    def write() -> None:
        with replacing(target) as file:
            file.write(b"ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def _load_counting(name: str, root: Path, barrier: object, out: object) -> None:
    made = []
    original = Cache._write
    Cache._write = lambda self, arrays: made.append(1) or original(self, arrays)
    barrier.wait()
    out.put((data.load(name, root).fingerprint, len(made)))


def test_processes_that_load_at_once_agree_and_only_one_decodes(tmp_path: Path) -> None:
    name = f"tiny:{write_zip(tmp_path / 'mini.zip', tiny_files(6, 20, 5))}"
    context = multiprocessing.get_context("fork")
    barrier, out = context.Barrier(3), context.Queue()
    workers = [context.Process(target=_load_counting, args=(name, tmp_path, barrier, out)) for _ in range(3)]
    for worker in workers:
        worker.start()
    answers = [out.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(timeout=60)
    assert len({fingerprint for fingerprint, _ in answers}) == 1
    assert sum(made for _, made in answers) == 1
    assert len(_kept(tmp_path)) == 1
    assert not list(tmp_path.rglob("*.part"))
