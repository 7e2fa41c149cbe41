"""CIFAR from archive, folder and .npz: accepted when it is the real thing, refused with a way out otherwise."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision
from torchvision.datasets import utils

from emi_bench import data
from emi_bench.data import cifar
from emi_bench.data.cifar import CIFAR10, CIFAR100
from emi_bench.errors import UserError
from tests.data.fakes import FakeCifar, arrays


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCifar:
    made = FakeCifar(tmp_path)
    made.believe(monkeypatch)
    return made


@pytest.mark.parametrize(
    ("ours", "theirs"), [(CIFAR10, torchvision.datasets.CIFAR10), (CIFAR100, torchvision.datasets.CIFAR100)]
)
def test_addresses_and_checksums_are_torchvisions(ours: cifar.Cifar, theirs: type) -> None:
    assert (ours.remote.url, ours.remote.filename, ours.remote.md5) == (theirs.url, theirs.filename, theirs.tgz_md5)
    assert ours.folder == theirs.base_folder
    assert len(set(ours.info.class_names)) == ours.info.n_classes


def _same(found: data.DataSet, fake: FakeCifar) -> None:
    assert torch.equal(found.x_train, torch.from_numpy(fake.x[:50]).permute(0, 3, 1, 2))
    assert torch.equal(found.x_test, torch.from_numpy(fake.x[50:]).permute(0, 3, 1, 2))
    assert found.y_train.tolist() == fake.y[:50].tolist()
    assert found.class_names == CIFAR10.info.class_names


def test_archive_is_read_and_then_comes_from_the_cache(
    fake: FakeCifar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _same(data.load("cifar10", tmp_path), fake)
    monkeypatch.setattr(utils, "extract_archive", lambda *paths: pytest.fail("the archive was unpacked twice"))
    _same(data.load("cifar10", tmp_path), fake)


def test_verify_reads_the_archive_past_the_cache(
    fake: FakeCifar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.load("cifar10", tmp_path)
    calls, extract = [], utils.extract_archive
    monkeypatch.setattr(utils, "extract_archive", lambda path, to: calls.append(path) or extract(path, to))
    verdict = data.verify("cifar10", tmp_path)
    assert verdict.ok
    assert verdict.where == str(fake.archive)
    assert calls == [fake.archive]


def test_unpacked_folder_and_npz_give_the_same(fake: FakeCifar, tmp_path: Path) -> None:
    fake.archive.unlink()
    folder = tmp_path / CIFAR10.folder
    folder.mkdir()
    for name, content in fake.files.items():
        (folder / name).write_bytes(content)
    _same(data.load("cifar10", tmp_path), fake)
    np.savez(tmp_path / "cifar10.npz", x_train=fake.x[:50], y_train=fake.y[:50], x_test=fake.x[50:], y_test=fake.y[50:])
    (folder / "test_batch").unlink()
    _same(data.load("cifar10", tmp_path), fake)  # the .npz comes before the folder


def test_truncated_archive_is_named(fake: FakeCifar, tmp_path: Path) -> None:
    fake.archive.write_bytes(fake.archive.read_bytes()[:-1000])
    with pytest.raises(UserError, match="cut short") as error:
        data.load("cifar10", tmp_path)
    assert str(fake.archive) in error.value.message
    assert "emi-bench data download cifar10" in error.value.hint


class _Trap:
    sprung = False

    def __reduce__(self) -> tuple[object, tuple[()]]:
        return _spring, ()


def _spring() -> dict[str, object]:
    _Trap.sprung = True
    return {}


def test_pickle_with_another_checksum_is_never_opened(fake: FakeCifar, tmp_path: Path) -> None:
    fake.archive.unlink()
    folder = tmp_path / CIFAR10.folder
    folder.mkdir()
    for name in fake.files:
        (folder / name).write_bytes(pickle.dumps(_Trap()))
    with pytest.raises(UserError, match=r"data_batch_1, .* missing or not as published"):
        data.load("cifar10", tmp_path)
    assert not _Trap.sprung
    pickle.loads((folder / "test_batch").read_bytes())
    assert _Trap.sprung  # the trap works


def test_missing_batch_is_named(fake: FakeCifar, tmp_path: Path) -> None:
    fake.archive.unlink()
    (tmp_path / CIFAR10.folder).mkdir()
    with pytest.raises(UserError, match=r"data_batch_1, .*batches\.meta missing"):
        data.load("cifar10", tmp_path)


def test_missing_data_says_where_it_was_looked_for_and_both_ways_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="CIFAR-10 is not on this machine") as error:
        data.load("cifar10", tmp_path)
    for name in ("cifar-10-python.tar.gz", "cifar10.npz", "cifar-10-batches-py"):
        assert str(tmp_path / name) in error.value.message
        assert name in error.value.hint
    assert "emi-bench data download cifar10" in error.value.hint
    assert f"under                 {tmp_path}" in error.value.hint
    verdict = data.verify("cifar10", tmp_path)
    assert (verdict.ok, verdict.where) == (False, None)


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_other_content_under_the_name_is_refused_by_fingerprint(name: str, tmp_path: Path) -> None:
    np.savez(tmp_path / f"{name}.npz", **arrays(size=32))
    with pytest.raises(UserError, match="24 training and 8 test images of 4 classes found") as error:
        data.load(name, tmp_path)
    expected = data.get_info(name).train_sha256
    assert expected is not None
    assert f"{expected[:12]}…" in error.value.message
    assert f"--dataset npz:{tmp_path / f'{name}.npz'}" in error.value.hint
    verdict = data.verify(name, tmp_path)
    assert not verdict.ok
    assert verdict.where == str(tmp_path / f"{name}.npz")


def test_changed_test_split_is_refused_too(fake: FakeCifar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = fake.spec()
    spec = replace(spec, info=replace(spec.info, test_sha256="0" * 64))
    source = data.catalogue.Source(spec.info, spec.load, spec.find, spec.remote)
    monkeypatch.setitem(data.catalogue.BUILT_IN, "cifar10", source)
    with pytest.raises(UserError, match="fingerprint of its test images"):
        data.load("cifar10", tmp_path)


@pytest.mark.parametrize("keep", [0, 10, 0.5, 0.99])
def test_truncated_npz_is_named(keep: float, tmp_path: Path) -> None:
    path = tmp_path / "cifar10.npz"
    np.savez(path, **arrays(size=32))
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if keep < 1 else int(keep)])
    with pytest.raises(UserError, match=r"cannot be read as an \.npz") as error:
        data.load("cifar10", tmp_path)
    assert str(path) in error.value.message


def test_flipped_byte_in_an_npz_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    np.savez(path, **arrays(size=32))
    content = bytearray(path.read_bytes())
    content[5000] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"cannot be read as an \.npz"):
        data.load(f"npz:{path}", tmp_path)


def test_unreadable_file_is_a_clear_error(fake: FakeCifar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(cifar, "md5_of", denied)
    with pytest.raises(UserError, match=r"cifar10 cannot be read: .*Permission denied"):
        data.load("cifar10", tmp_path)


def test_torchvision_is_imported_only_where_it_is_needed() -> None:
    script = "import sys, emi_bench.data as d; d.describe(); d.load('digits'); print('torchvision' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
