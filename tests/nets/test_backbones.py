"""Other backbones: chosen by name, built in or a plugin's, part of a run's id, refused where they do not fit."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from emi_bench import methods
from emi_bench.data import load
from emi_bench.errors import UserError
from emi_bench.methods import load_plugin
from emi_bench.nets import backbones, encoder
from emi_bench.nets.backbones import ImageNetResNet18, get_backbone, make_encoder
from emi_bench.nets.layout import layout_for
from emi_bench.nets.resnet import ResNet
from emi_bench.run.loop import build_method, run
from emi_bench.run.resolve import resolve
from tests.synthetic import FAST, register_blobs

PLUGIN = """
from torch import nn
from emi_bench.nets import Encoder


class Pooled(Encoder):
    name = "pooled"

    def __init__(self, width, *, image_size, pooling):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 8 * width, 3, 2, 1), nn.BatchNorm2d(8 * width), nn.ReLU())
        self.out_dim = 8 * width

    def maps(self, x):
        return (self.conv(x),)

    def pool(self, last):
        return last.mean((2, 3))
"""


@pytest.fixture(scope="module", autouse=True)
def large() -> None:
    register_blobs("large", classes=4, n_tasks=2, per_class=1, side=64)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(methods, "_plugins", {})
    monkeypatch.setattr(encoder, "BACKBONES", dict(encoder.BACKBONES))
    monkeypatch.setattr(backbones, "BACKBONES", encoder.BACKBONES)
    file = tmp_path / "pooled.py"
    file.write_text(PLUGIN)
    load_plugin(file)
    return file


def asked(backbone: str, method: str = "er", dataset: str = "large", **more: Any) -> Any:
    protocol = {k: v for k, v in FAST.items() if k != "width"} | {"backbone": backbone}
    return resolve(method, dataset, memory=12, protocol=protocol | more.pop("protocol", {}), **more)


def test_the_default_is_the_reduced_resnet_and_not_part_of_the_id() -> None:
    assert asked("reduced_resnet18").run_id == resolve("er", "large", memory=12, protocol=FAST | {"width": 20}).run_id
    other = asked("resnet18_imagenet")
    assert other.identity()["protocol"]["backbone"] == "resnet18_imagenet"
    assert "--set protocol.backbone=resnet18_imagenet" in other.command()


def test_torchvisions_resnet_has_its_maps_and_features() -> None:
    net = make_encoder("resnet18_imagenet", 20, image_size=64, pooling="avg4")
    shapes = [tuple(m.shape[1:]) for m in net.maps(torch.zeros(2, 3, 64, 64))]
    assert shapes == [(64, 16, 16), (128, 8, 8), (256, 4, 4), (512, 2, 2)]
    assert net(torch.zeros(2, 3, 64, 64)).shape == (2, net.out_dim)
    assert sum(p.numel() for p in net.parameters()) == 11_689_512 - 513_000  # as published, but for the classifier
    assert layout_for(net) == torch.channels_last


@pytest.mark.parametrize("method", ["er", "scr", "gss", pytest.param("ocm", marks=pytest.mark.slow)])
def test_methods_run_on_torchvisions_resnet(method: str) -> None:
    spec = asked("resnet18_imagenet", method, protocol={"batch": 2, "replay_batch": 2})
    data = load("large")
    built = build_method(spec, data.info, "cpu")
    assert isinstance(built.net.slow, ImageNetResNet18)
    result = run(spec, data)  # a step a task, the second with replay
    assert np.isfinite(result.matrix[-1]).all()
    if method == "er":  # repeats are the network's matter here; of every method the battery asks them
        np.testing.assert_array_equal(run(spec, data).matrix, result.matrix)


def test_the_dualnet_wants_the_maps_of_the_reduced_resnet() -> None:
    with pytest.raises(UserError, match="four maps of the reduced ResNet-18; resnet18_imagenet gives others"):
        asked("resnet18_imagenet", "emi")
    with pytest.raises(UserError, match="MOSE's experts work on the four maps"):
        asked("resnet18_imagenet", "mose")
    off = asked("resnet18_imagenet", "emi", config={"dualnet": False, "dmi": False})
    assert off.changed == asked("reduced_resnet18", "emi", config={"dualnet": False, "dmi": False}).changed | {
        "protocol.backbone": "resnet18_imagenet"
    }


def test_what_does_not_fit_is_refused_before_the_run() -> None:
    with pytest.raises(UserError, match="unknown backbone 'resnet19'"):
        asked("resnet19")
    with pytest.raises(UserError, match="64 pixels and more, these have 8"):
        asked("resnet18_imagenet", dataset="digits")
    with pytest.raises(UserError, match="64 pixels and more, these have 32"):
        asked("resnet18_imagenet", protocol={"image_size": 32})
    with pytest.raises(UserError, match="has a width of its own"):
        asked("resnet18_imagenet", protocol={"width": 64})
    assert asked("resnet18_imagenet", protocol={"preset": "modern"}).protocol.width == 20


def test_a_plugin_s_backbone_runs_and_its_code_is_part_of_the_id(plugin: Path) -> None:
    spec = asked("pooled", dataset="digits", protocol={"width": 2, "batch": 50})
    assert spec.code_sha256 == hashlib.sha256(plugin.read_bytes()).hexdigest()
    assert f"--plugin {plugin}" in spec.command()
    assert np.isfinite(run(spec, load("digits")).matrix[-1]).all()
    assert get_backbone("pooled").macs(20, 32) == ResNet.macs(20, 32)
    plugin.write_text(PLUGIN.replace("8 * width", "9 * width"))
    load_plugin(plugin)
    assert asked("pooled", dataset="digits", protocol={"width": 2, "batch": 50}).run_id != spec.run_id


def test_a_backbone_that_does_not_keep_its_word_is_named(plugin: Path) -> None:
    plugin.write_text(PLUGIN.replace("out_dim = 8", "out_dim = 7"))
    load_plugin(plugin)
    with pytest.raises(UserError, match=r"'pooled' gives features of the shape \(2, 16\) .* its out_dim is 14"):
        run(asked("pooled", dataset="digits", protocol={"width": 2}), load("digits"))


def test_a_plugin_cannot_take_the_name_of_a_built_in_one(plugin: Path) -> None:
    plugin.write_text(PLUGIN.replace('"pooled"', '"reduced_resnet18"'))
    with pytest.raises(UserError, match="is a backbone of emi-bench"):
        load_plugin(plugin)
    assert get_backbone("reduced_resnet18") is ResNet


def test_method_and_backbone_come_from_one_file(plugin: Path, tmp_path: Path) -> None:
    other = tmp_path / "mine.py"
    other.write_text(
        "from emi_bench.methods.er import ER\n\n\nclass Mine(ER):\n    name = 'mine_too'\n    title = 'M'\n"
    )
    load_plugin(other)
    with pytest.raises(UserError, match="come from two files"):
        asked("pooled", "mine_too", "digits")
