"""Real data, where EMI_BENCH_TEST_DATA names a folder that has some of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from emi_bench import data
from emi_bench.errors import UserError


def _real(name: str) -> Path:
    folder = os.environ.get("EMI_BENCH_TEST_DATA")
    if not folder:
        pytest.skip("EMI_BENCH_TEST_DATA is not set")
    path = Path(folder) / name
    if not path.exists():
        pytest.skip(f"{path} is absent")
    return path


def test_real_cifar10_has_the_known_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "cifar10.npz").symlink_to(_real("cifar10.npz"))
    found = data.load("cifar10", tmp_path)
    assert (len(found.y_train), len(found.y_test)) == (50000, 10000)
    assert found.fingerprint == data.get_info("cifar10").fingerprint


def test_subset_of_cifar100_runs_under_its_own_name_only(tmp_path: Path) -> None:
    path = _real("cifar100_small.npz")
    found = data.load(f"npz:{path}", tmp_path)
    assert (found.n_classes, found.image_size, len(found.y_train), len(found.y_test)) == (100, 32, 10000, 2000)
    (tmp_path / "cifar100.npz").symlink_to(path)
    with pytest.raises(UserError, match="is not CIFAR-100"):
        data.load("cifar100", tmp_path)


def test_subset_of_tiny_imagenet_runs_under_its_own_name_only(tmp_path: Path) -> None:
    path = _real("tiny-imagenet-200-first20.zip")
    found = data.load(f"tiny:{path}", tmp_path)
    assert (found.n_classes, found.image_size, len(found.y_train), len(found.y_test)) == (20, 64, 4000, 1000)
    assert found.y_train.bincount().tolist() == [200] * 20
    assert found.y_test.bincount().tolist() == [50] * 20
    assert found.class_names[0] == "Egyptian cat"
    (tmp_path / "tiny-imagenet-200.zip").symlink_to(path)
    with pytest.raises(UserError, match="20 classes"):
        data.load("tinyimagenet", tmp_path)
