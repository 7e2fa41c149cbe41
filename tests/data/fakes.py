"""Small data in the forms that loaders read."""

from __future__ import annotations

import hashlib
import io
import pickle
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torchvision
from PIL import Image

from emi_bench.data import catalogue
from emi_bench.data.arrays import content_sha256
from emi_bench.data.catalogue import Source
from emi_bench.data.cifar import CIFAR10, Cifar


def arrays(n_classes: int = 4, size: int = 8, seed: int = 0) -> dict[str, np.ndarray]:
    """Six training and two test images a class."""
    rng = np.random.default_rng(seed)
    y_train, y_test = np.repeat(np.arange(n_classes), 6), np.repeat(np.arange(n_classes), 2)
    return {
        "x_train": rng.integers(0, 256, (len(y_train), size, size, 3), dtype=np.uint8),
        "y_train": rng.permutation(y_train),
        "x_test": rng.integers(0, 256, (len(y_test), size, size, 3), dtype=np.uint8),
        "y_test": rng.permutation(y_test),
    }


def write_npz(path: Path, **changes: np.ndarray | None) -> Path:
    """Sound arrays with some of them exchanged or, by None, left out."""
    content = arrays() | changes
    np.savez(path, **{k: v for k, v in content.items() if v is not None})
    return path


def image_bytes(seed: int, size: tuple[int, int] = (8, 8), mode: str = "RGB", kind: str = "PNG") -> bytes:
    rng = np.random.default_rng(seed)
    shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
    out = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8), mode).save(out, kind)
    return out.getvalue()


def image_folder(path: Path, classes: tuple[str, ...] = ("ant", "bee", "cow")) -> Path:
    for split, count in (("train", 3), ("test", 2)):
        for c, name in enumerate(classes):
            folder = path / split / name
            folder.mkdir(parents=True)
            for i in range(count):
                (folder / f"{i}.png").write_bytes(image_bytes(100 * c + 10 * i + count))
    return path


def tiny_files(
    n_classes: int = 3, n_train: int = 3, n_test: int = 2, top: str = "tiny-imagenet-200/"
) -> dict[str, bytes]:
    """The official layout; the classes are deliberately not in alphabetical order; one JPEG is greyscale."""
    wnids = [f"n{9000 - c:08d}" for c in range(n_classes)]
    files, notes, val = {}, [], 0
    for c, wnid in enumerate(wnids):
        for i in range(n_train):
            mode = "L" if (c, i) == (0, 1) else "RGB"
            files[f"{top}train/{wnid}/images/{wnid}_{i}.JPEG"] = image_bytes(100 * c + i, (64, 64), mode, "JPEG")
        files[f"{top}train/{wnid}/{wnid}_boxes.txt"] = b"boxes are not used\n"
    for i in range(n_test):
        for c, wnid in enumerate(wnids):
            files[f"{top}val/images/val_{val}.JPEG"] = image_bytes(5000 + 100 * c + i, (64, 64), "RGB", "JPEG")
            notes.append(f"val_{val}.JPEG\t{wnid}\t0\t0\t63\t63")
            val += 1
    files[f"{top}test/images/test_0.JPEG"] = image_bytes(1, (64, 64), "RGB", "JPEG")
    files[f"{top}wnids.txt"] = "\n".join(wnids).encode()
    files[f"{top}words.txt"] = "".join(f"{w}\tword {c}, synonym\n" for c, w in enumerate(wnids)).encode()
    files[f"{top}val/val_annotations.txt"] = "\n".join(notes).encode()
    return files


def write_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def write_tree(path: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


class FakeCifar:
    """A CIFAR-10 of 50 + 10 noise images whose checksums the catalogue is made to believe."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(0)
        self.x = rng.integers(0, 256, (60, 32, 32, 3), dtype=np.uint8)
        self.y = np.tile(np.arange(10), 6)
        self.files = {}
        batches = [f"data_batch_{i}" for i in range(1, 6)]
        for i, name in enumerate([*batches, "test_batch"]):
            rows = slice(10 * i, 10 * i + 10)
            flat = self.x[rows].transpose(0, 3, 1, 2).reshape(10, -1)
            self.files[name] = pickle.dumps({"data": flat, "labels": self.y[rows].tolist()})
        self.files["batches.meta"] = pickle.dumps({"label_names": CIFAR10.info.class_names})
        self.archive = folder / CIFAR10.remote.filename
        with tarfile.open(self.archive, "w:gz") as tar:
            for name, content in self.files.items():
                member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))

    def spec(self) -> Cifar:
        return replace(
            CIFAR10,
            remote=replace(CIFAR10.remote, md5=md5(self.archive.read_bytes())),
            info=replace(
                CIFAR10.info,
                train_sha256=content_sha256(self.x[:50], self.y[:50], 10),
                test_sha256=content_sha256(self.x[50:], self.y[50:], 10),
            ),
        )

    def believe(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From here on, `cifar10` is this."""
        spec = self.spec()
        monkeypatch.setitem(catalogue.BUILT_IN, "cifar10", Source(spec.info, spec.load, spec.find, spec.remote))
        sums = [[name, md5(content)] for name, content in self.files.items()]
        monkeypatch.setattr(torchvision.datasets.CIFAR10, "train_list", sums[:5])
        monkeypatch.setattr(torchvision.datasets.CIFAR10, "test_list", sums[5:6])
        meta = torchvision.datasets.CIFAR10.meta | {"md5": sums[6][1]}
        monkeypatch.setattr(torchvision.datasets.CIFAR10, "meta", meta)
