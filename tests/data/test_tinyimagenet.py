"""Tiny-ImageNet's layout from zip and folder; the whole of it is recognised, a part of it refused."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from emi_bench import data
from emi_bench.data import tinyimagenet
from emi_bench.errors import UserError
from tests.data.fakes import image_bytes, tiny_files, write_tree, write_zip

TOP = "tiny-imagenet-200/"


def test_zip_and_folder_give_the_same_content(tmp_path: Path) -> None:
    files = tiny_files()
    zipped = data.load(f"tiny:{write_zip(tmp_path / 'mini.zip', files)}", tmp_path)
    unpacked = data.load(f"tiny:{write_tree(tmp_path / 'mini', files)}", tmp_path)
    assert zipped.fingerprint == unpacked.fingerprint
    assert zipped.x_train.shape == (9, 3, 64, 64)
    assert zipped.x_test.shape == (6, 3, 64, 64)


def test_classes_follow_wnids_and_test_labels_follow_the_annotations(tmp_path: Path) -> None:
    files = tiny_files()
    found = data.load(f"tiny:{write_zip(tmp_path / 'mini.zip', files)}", tmp_path)
    assert found.class_names == ("word 0", "word 1", "word 2")  # wnids.txt is in descending order
    assert found.y_train.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert found.y_test.tolist() == [0, 0, 1, 1, 2, 2]
    second = files[f"{TOP}val/images/val_1.JPEG"]  # annotated as class 1
    pixels = torch.from_numpy(np.array(Image.open(io.BytesIO(second)).convert("RGB"))).permute(2, 0, 1)
    assert torch.equal(found.x_test[2], pixels)


def test_greyscale_jpeg_becomes_rgb(tmp_path: Path) -> None:
    found = data.load(f"tiny:{write_zip(tmp_path / 'mini.zip', tiny_files())}", tmp_path)
    grey = found.x_train[1]
    assert torch.equal(grey[0], grey[1])
    assert torch.equal(grey[0], grey[2])
    assert not torch.equal(found.x_train[0][0], found.x_train[0][1])


def test_whole_is_accepted_by_its_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tinyimagenet, "TRAIN_PER_CLASS", 1)
    monkeypatch.setattr(tinyimagenet, "TEST_PER_CLASS", 1)
    path = write_zip(tmp_path / "tiny-imagenet-200.zip", tiny_files(200, 1, 1))
    assert data.load("tinyimagenet", tmp_path).n_classes == 200
    verdict = data.verify("tinyimagenet", tmp_path)
    assert verdict.ok
    assert "not the published archive" in verdict.detail
    path.unlink()
    write_tree(tmp_path, tiny_files(200, 1, 1))
    assert data.verify("tinyimagenet", tmp_path).where == str(tmp_path / "tiny-imagenet-200")


@pytest.mark.parametrize(("classes", "train", "test"), [(3, 1, 1), (200, 2, 1), (200, 1, 2)])
def test_part_of_it_is_refused_with_the_name_it_may_run_under(
    classes: int, train: int, test: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tinyimagenet, "TRAIN_PER_CLASS", 1)
    monkeypatch.setattr(tinyimagenet, "TEST_PER_CLASS", 1)
    path = write_zip(tmp_path / "tiny-imagenet-200.zip", tiny_files(classes, train, test))
    with pytest.raises(UserError, match=f"{classes} classes \\(200 expected\\) with {train} training") as error:
        data.load("tinyimagenet", tmp_path)
    assert f"tiny:{path}" in error.value.hint


def test_missing_says_where_and_how(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Tiny-ImageNet is not on this machine") as error:
        data.load("tinyimagenet", tmp_path)
    assert str(tmp_path / "tiny-imagenet-200.zip") in error.value.message
    assert "emi-bench data download tinyimagenet" in error.value.hint


def test_truncated_zip_is_named(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "tiny-imagenet-200.zip", tiny_files())
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(UserError, match="not a readable zip archive") as error:
        data.load("tinyimagenet", tmp_path)
    assert str(path) in error.value.message


@pytest.mark.parametrize("name", ["../evil.txt", "/etc/evil", "a/../../evil", "..\\evil", "C:\\evil"])
def test_zip_with_a_path_that_escapes_is_refused(name: str, tmp_path: Path) -> None:
    path = write_zip(tmp_path / "mini.zip", tiny_files() | {name: b"evil"})
    with pytest.raises(UserError, match="unsafe path"):
        data.load(f"tiny:{path}", tmp_path)


DAMAGE: dict[str, tuple[str, bytes | None, str]] = {
    "no wnids": (f"{TOP}wnids.txt", None, r"has no wnids\.txt"),
    "no annotations": (f"{TOP}val/val_annotations.txt", None, "has no .*val_annotations"),
    "odd annotations": (f"{TOP}val/val_annotations.txt", b"val_0.JPEG n0\n", "a line of val_annotations"),
    "no val image": (f"{TOP}val/images/val_3.JPEG", None, r"1 images of val_annotations.*val_3\.JPEG"),
    "class without images": (f"{TOP}wnids.txt", b"n00009000\nn00000001", "1 of 2 classes have no training image"),
    "broken image": (f"{TOP}val/images/val_3.JPEG", b"not a jpeg", r"val_3\.JPEG is not a readable image"),
    "cut image": (
        f"{TOP}val/images/val_3.JPEG",
        image_bytes(0, (64, 64), "RGB", "JPEG")[:900],
        r"val_3\.JPEG is not a readable image",
    ),
    "other size": (
        f"{TOP}val/images/val_3.JPEG",
        image_bytes(0, (32, 64), "RGB", "JPEG"),
        r"val_0\.JPEG is 64x64, .*val_3\.JPEG is 32x64",
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_named(case: str, tmp_path: Path) -> None:
    name, content, message = DAMAGE[case]
    files = tiny_files()
    if content is None:
        del files[name]
    else:
        files[name] = content
    with pytest.raises(UserError, match=message):
        data.load(f"tiny:{write_zip(tmp_path / 'mini.zip', files)}", tmp_path)


def test_flipped_byte_inside_the_zip_is_named(tmp_path: Path) -> None:
    files = tiny_files()
    path = write_zip(tmp_path / "mini.zip", files)
    content = bytearray(path.read_bytes())
    image = files[f"{TOP}val/images/val_3.JPEG"]
    content[content.index(image) + len(image) // 2] ^= 255
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"val_3\.JPEG is not a readable image"):
        data.load(f"tiny:{path}", tmp_path)


def test_classes_left_out_of_wnids_are_left_out_everywhere(tmp_path: Path) -> None:
    files = tiny_files()
    files[f"{TOP}wnids.txt"] = b"n00008998\nn00009000\n"
    del files[f"{TOP}words.txt"]
    found = data.load(f"tiny:{write_zip(tmp_path / 'mini.zip', files)}", tmp_path)
    assert found.class_names == ("n00008998", "n00009000")
    assert (len(found.y_train), len(found.y_test)) == (6, 4)


def test_changed_folder_is_decoded_anew(tmp_path: Path) -> None:
    folder = write_tree(tmp_path / "mini", tiny_files())
    before = data.load(f"tiny:{folder}", tmp_path)
    image = folder / f"{TOP}val/images/val_0.JPEG"
    time = image.stat().st_mtime_ns
    image.write_bytes(image_bytes(77, (64, 64), "RGB", "JPEG"))
    os.utime(image, ns=(time + 10**9, time + 10**9))
    after = data.load(f"tiny:{folder}", tmp_path)
    assert before.info.train_sha256 == after.info.train_sha256
    assert before.info.test_sha256 != after.info.test_sha256
