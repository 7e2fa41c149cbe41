"""A user's own data: npz:PATH and folder:PATH."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from emi_bench import data
from emi_bench.data import own
from emi_bench.errors import UserError
from tests.data.fakes import arrays, image_bytes, image_folder, write_npz


def test_npz_is_loaded_as_it_is(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "my birds.npz", class_names=np.array(["a", "b", "c", "d"]))
    found, raw = data.load(f"npz:{path}", tmp_path), arrays()
    assert torch.equal(found.x_train, torch.from_numpy(raw["x_train"]).permute(0, 3, 1, 2))
    assert found.y_test.tolist() == raw["y_test"].tolist()
    assert found.y_train.dtype == torch.int64
    assert found.class_names == ("a", "b", "c", "d")


def test_info_of_own_data_is_measured_and_asks_for_the_number_of_tasks(tmp_path: Path) -> None:
    name = f"npz:{write_npz(tmp_path / 'my birds.npz')}"
    info, found = data.get_info(name, tmp_path), data.load(name, tmp_path)
    assert (info.n_classes, info.image_size, info.n_tasks, info.own) == (4, 8, None, True)
    assert (info.n_train, info.n_test) == (24, 8)
    assert info.fingerprint == found.fingerprint
    assert info.name == found.name
    assert info.name.startswith("my-birds-")
    pixels = found.x_train.double() / 255
    assert info.mean == pytest.approx(pixels.mean((0, 2, 3)).tolist(), abs=5.1e-5)
    assert info.std == pytest.approx(pixels.std((0, 2, 3), correction=0).tolist(), abs=5.1e-5)


def test_planning_many_cells_reads_own_data_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"npz:{write_npz(tmp_path / 'mine.npz')}"
    first = data.get_info(name, tmp_path)
    monkeypatch.setattr(own, "_arrays", lambda *args: pytest.fail("read again"))
    assert all(data.get_info(name, tmp_path) is first for _ in range(100))


def test_rewritten_npz_is_another_data_set(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "mine.npz")
    before = data.get_info(f"npz:{path}", tmp_path)
    np.savez(path, **arrays(seed=1))
    os.utime(path, ns=(1, 1))
    after = data.get_info(f"npz:{path}", tmp_path)
    assert before.name != after.name
    assert before.fingerprint != after.fingerprint


def test_relative_path_and_home_are_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_npz(tmp_path / "mine.npz")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data.load("npz:mine.npz").fingerprint == data.load("npz:~/mine.npz").fingerprint
    assert data.verify("npz:mine.npz").where == str(tmp_path / "mine.npz")


@pytest.mark.parametrize("prefix", ["npz", "folder", "tiny"])
def test_absent_own_data_says_where_it_was_looked_for(prefix: str, tmp_path: Path) -> None:
    name = f"{prefix}:{tmp_path / 'nothing'}"
    for ask in (data.load, data.get_info):
        with pytest.raises(UserError, match=f"at {tmp_path / 'nothing'}; nothing is there"):
            ask(name, tmp_path)
    assert not data.verify(name, tmp_path).ok
    with pytest.raises(UserError, match="looked for"):
        data.load(f"{prefix}:", tmp_path)


def test_kinds_are_not_mixed_up(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="something else"):
        data.load(f"npz:{tmp_path}", tmp_path)
    with pytest.raises(UserError, match="something else"):
        data.load(f"folder:{write_npz(tmp_path / 'mine.npz')}", tmp_path)
    np.save(tmp_path / "single.npy", np.zeros(3))
    with pytest.raises(UserError, match="a single array"):
        data.load(f"npz:{tmp_path / 'single.npy'}", tmp_path)


def test_own_data_is_never_downloaded(tmp_path: Path) -> None:
    name = f"npz:{write_npz(tmp_path / 'mine.npz')}"
    with pytest.raises(UserError, match="your own data"):
        data.download(name, tmp_path)
    assert data.load(name, tmp_path, download=True).n_classes == 4


def test_folder_gives_classes_and_images_in_the_order_of_their_names(tmp_path: Path) -> None:
    path = image_folder(tmp_path / "farm")
    (path / "train" / "ant" / "1.png").write_bytes(image_bytes(3, mode="L"))
    (path / "train" / "ant" / ".hidden").write_text("left by an editor")
    (path / "train" / "ant" / "Thumbs.db").write_text("left by a file manager")
    found = data.load(f"folder:{path}", tmp_path)
    assert found.class_names == ("ant", "bee", "cow")
    assert found.y_train.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert found.y_test.tolist() == [0, 0, 1, 1, 2, 2]
    grey = found.x_train[1]
    assert torch.equal(grey[0], grey[1])
    info = data.get_info(f"folder:{path}", tmp_path)
    assert (info.name, info.fingerprint, info.n_classes) == (found.name, found.fingerprint, 3)


def test_folder_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = image_folder(tmp_path / "farm")
    first = data.load(f"folder:{path}", tmp_path)
    monkeypatch.setattr(own.folder, "decode", lambda *args: pytest.fail("decoded again"))
    assert data.load(f"folder:{path}", tmp_path).fingerprint == first.fingerprint


def test_loading_a_changed_folder_corrects_what_planning_knew(tmp_path: Path) -> None:
    path = image_folder(tmp_path / "farm")
    name = f"folder:{path}"
    before = data.get_info(name, tmp_path)
    image = path / "train" / "ant" / "0.png"
    image.write_bytes(image_bytes(99))
    os.utime(image, ns=(5, 5))
    loaded = data.load(name, tmp_path)
    assert loaded.fingerprint != before.fingerprint
    assert data.get_info(name, tmp_path).fingerprint == loaded.fingerprint


def test_unsound_folders_are_refused_with_the_reason(tmp_path: Path) -> None:
    def refused(change: str, message: str) -> None:
        path = image_folder(tmp_path / change)
        ant = path / "train" / "ant"
        match change:
            case "no test":
                (path / "test").rename(path / "val")
            case "untested class":
                (path / "train" / "dog").mkdir()
            case "empty class":
                for image in ant.iterdir():
                    image.unlink()
            case "nested":
                (ant / "more").mkdir()
            case "text":
                (ant / "notes.txt").write_text("not an image")
            case "size":
                (ant / "1.png").write_bytes(image_bytes(0, (8, 9)))
            case "oblong":
                for image in path.rglob("*.png"):
                    image.write_bytes(image_bytes(0, (8, 9)))
            case "cut":
                (ant / "1.png").write_bytes(image_bytes(0)[:100])
        with pytest.raises(UserError, match=message) as error:
            data.load(f"folder:{path}", tmp_path)
        assert error.value.hint

    refused("no test", "has no folder test")
    refused("untested class", "the classes dog are in only one")
    refused("empty class", "ant has no images")
    refused("nested", "more is a folder inside a class")
    refused("text", r"train/ant/notes\.txt is not a readable image")
    refused("size", r"0\.png is 8x8, train/ant/1\.png is 8x9")
    refused("oblong", "must be square")
    refused("cut", r"1\.png is not a readable image")
    (tmp_path / "bare" / "train").mkdir(parents=True)
    (tmp_path / "bare" / "test").mkdir()
    with pytest.raises(UserError, match="no class folders"):
        data.load(f"folder:{tmp_path / 'bare'}", tmp_path)
