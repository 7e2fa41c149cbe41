"""Names, planning without data, plugins."""

from __future__ import annotations

import importlib.metadata
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from sklearn.datasets import load_digits

from emi_bench import data
from emi_bench.data import catalogue, digits
from emi_bench.data.arrays import mean_and_std
from emi_bench.data.info import DIGITS
from emi_bench.errors import UserError
from emi_bench.methods import load_plugin
from emi_bench.run.resolve import resolve
from tests.data.fakes import write_npz
from tests.synthetic import Entry


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "_registered", {})
    catalogue._load_entry_points.cache_clear()


@pytest.mark.parametrize(
    ("name", "classes", "tasks", "size"),
    [("digits", 10, 5, 8), ("cifar10", 10, 5, 32), ("cifar100", 100, 10, 32), ("tinyimagenet", 200, 100, 64)],
)
def test_planning_needs_no_data(name: str, classes: int, tasks: int, size: int, tmp_path: Path) -> None:
    info = data.get_info(name, tmp_path / "nowhere")
    assert (info.n_classes, info.n_tasks, info.image_size, info.own) == (classes, tasks, size, False)
    assert all(0 < m < 1 and 0 < s < 1 for m, s in zip(info.mean, info.std, strict=True))
    assert not (tmp_path / "nowhere").exists()


def test_digits_are_what_their_entry_says() -> None:
    found = data.load("digits")
    assert found.fingerprint == DIGITS.fingerprint
    assert (len(found.y_train), len(found.y_test)) == (DIGITS.n_train, DIGITS.n_test)
    assert mean_and_std(digits.read().x_train) == (DIGITS.mean, DIGITS.std)
    assert found.x_train.dtype == torch.uint8
    assert (int(found.x_train.min()), int(found.x_train.max())) == (0, 255)


def test_digits_split_holds_every_image_once_and_140_of_each_class_for_training() -> None:
    found, raw = data.load("digits"), load_digits()
    split = torch.cat([found.x_train[:, 0], found.x_test[:, 0]]).double() * 16 / 255
    ours = sorted(map(tuple, split.round().int().flatten(1).tolist()))
    assert ours == sorted(map(tuple, raw.data.astype(int).tolist()))
    assert torch.bincount(found.y_train).tolist() == [140] * 10
    assert torch.bincount(found.y_test).min() == 34


def test_digits_without_the_packaged_file_come_from_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits, "find_spec", lambda name: None)
    assert data.load("digits").fingerprint == DIGITS.fingerprint


def test_images_move_to_the_device_and_labels_stay() -> None:
    moved = data.load("digits").to("meta")
    assert moved.x_train.device.type == moved.x_test.device.type == "meta"
    assert moved.y_train.device.type == moved.y_test.device.type == "cpu"
    assert moved.x_train.is_contiguous(memory_format=torch.channels_last)


def test_unknown_name_answers_with_a_guess_and_the_list() -> None:
    for ask in (data.get_info, data.load, data.verify, data.download):
        with pytest.raises(UserError, match="unknown data set 'cifar-10'") as error:
            ask("cifar-10")
        assert "Did you mean cifar10" in error.value.hint
        assert "npz:PATH" in error.value.hint


def test_bare_path_is_answered_with_its_prefix(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "mine.npz")
    with pytest.raises(UserError, match="unknown data set") as error:
        data.get_info(str(path))
    assert f"npz:{path}" in error.value.hint


PLUGIN = """
import numpy as np
from emi_bench.data import DataInfo, DataSet, checked, register

def load(root):
    x = np.arange(4 * 8 * 8 * 3, dtype=np.uint8).reshape(4, 8, 8, 3)
    y = np.array([0, 1, 0, 1])
    return DataSet.from_arrays("stripes", checked("stripes", x, y, x, y))

register(DataInfo("stripes", n_classes=2, n_tasks=2, image_size=8, n_train=4, n_test=4,
                  mean=(.5, .5, .5), std=(.2, .2, .2)), load)
"""


def test_plugin_file_adds_a_data_set(tmp_path: Path) -> None:
    file = tmp_path / "stripes.py"
    file.write_text(PLUGIN)
    load_plugin(file)
    assert "stripes" in data.dataset_names()
    assert data.get_info("stripes").n_tasks == 2
    found = data.load("stripes")
    assert (found.info.mean, found.info.n_train, len(found.y_train)) == ((0.5, 0.5, 0.5), 4, 4)
    assert found.info.fingerprint == found.fingerprint
    assert data.verify("stripes").ok
    assert next(row for row in data.describe() if row["name"] == "stripes")["found"] == "plugin"
    assert data.download("stripes", tmp_path) == "plugin"


def test_runs_on_a_plugin_s_data_are_told_apart_by_its_content() -> None:
    ids = set()
    for digit in "ab":
        data.register(replace(DIGITS, name="versions", train_sha256=64 * digit), lambda root: data.load("digits"))
        ids.add(resolve("er", "versions", memory=20).run_id)
    assert len(ids) == 2


def test_plugin_that_loads_something_else_than_it_announced_is_refused() -> None:
    data.register(replace(DIGITS, name="other", n_classes=7, train_sha256=None), lambda root: data.load("digits"))
    with pytest.raises(UserError, match="10 classes of 8 px found, 7 of 8 px expected"):
        data.load("other")


@pytest.mark.parametrize("name", ["cifar10", "npz:x", "a/b", ""])
def test_plugin_cannot_take_a_built_in_or_unfileable_name(name: str) -> None:
    with pytest.raises(UserError, match="cannot be registered"):
        data.register(replace(DIGITS, name=name), lambda root: data.load("digits"))


def test_installed_package_adds_a_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def announce() -> None:
        data.register(replace(DIGITS, name="installed"), lambda root: data.load("digits"))

    monkeypatch.setattr(catalogue, "entry_points", lambda group: [Entry("installed", announce)])
    assert data.get_info("installed").n_classes == 10


def test_broken_installed_package_is_named_and_spares_the_built_in(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = importlib.metadata.PackageNotFoundError("gone")
    monkeypatch.setattr(catalogue, "entry_points", lambda group: [Entry("broken", broken)])
    assert data.get_info("digits").n_classes == 10
    with pytest.raises(UserError, match="'broken'"):
        data.dataset_names()


def test_data_root_is_option_then_environment_then_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EMI_BENCH_DATA", str(tmp_path / "env"))
    assert data.data_root(tmp_path / "option") == tmp_path / "option"
    assert data.data_root() == tmp_path / "env"
    monkeypatch.delenv("EMI_BENCH_DATA")
    assert data.data_root() == Path.home() / ".cache" / "emi-bench"


def test_table_of_data_sets_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "cifar100.npz").touch()
    found = {row["name"]: row["found"] for row in data.describe(tmp_path)}
    assert found == {
        "digits": "inside scikit-learn",
        "cifar10": None,
        "cifar100": str(tmp_path / "cifar100.npz"),
        "tinyimagenet": None,
    }
