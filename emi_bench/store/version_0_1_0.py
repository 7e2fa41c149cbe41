"""What files of version 0.1.0 do not say of themselves: their cell, and which constants they changed.

The defaults of that version lie beside this file and never change; those that depended on the problem are rules here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from emi_bench.facts import LEFT_OUT_0_1_0

UNKNOWN = object()
ALL_SEEDS = ("method", "method_version", "config", "dataset", "data_fingerprint", "memory", "protocol")


def cell_id(spec: dict[str, Any]) -> str:
    """sha256 of a stored specification without its seed, as `RunSpec.cell_id` makes it."""
    identity = {name: spec.get(name) for name in ALL_SEEDS}
    identity["config"] = {k: v for k, v in spec["config"].items() if k not in LEFT_OUT_0_1_0}
    first = _defaults()["protocol"]  # a field that came later counts only where it is set
    identity["protocol"] = {k: v for k, v in spec["protocol"].items() if k in first or v is not None}
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def changed(spec: dict[str, Any], n_classes: int) -> dict[str, Any]:
    """What differs from the defaults, as `RunSpec.changed` has it.

    A plugin's own constants are all listed: nobody knows their defaults. The pooling and the pixel statistics that
    followed from a user's own images are not: nobody knows the images.
    """
    known, protocol = _defaults(), spec["protocol"]
    data = known["datasets"].get(spec["dataset"], {})
    if data and protocol.get("image_size"):
        data = data | {"image_size": protocol["image_size"]}  # the first results on smaller images are of that version
    usual = known["protocol"] | {"n_tasks": data.get("n_tasks")}
    found = {f"protocol.{k}": v for k, v in protocol.items() if v != usual.get(k)}
    plain = dict(known["methods"].get(spec["method"], known["any method"]))
    for name in [name for name, value in plain.items() if value is None and name in _DERIVED]:
        plain[name] = _DERIVED[name](plain, data, spec, n_classes)
    own = {k: v for k, v in spec["config"].items() if k not in LEFT_OUT_0_1_0}
    return found | {k: v for k, v in own.items() if k not in plain or plain[k] not in (v, UNKNOWN)}


@cache
def _defaults() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Path(__file__).with_name("defaults_0_1_0.json").read_text())
    return content


def _samples_per_class(data: dict[str, Any], memory: int, n: int) -> float:
    usual = 9 if n <= 10 else 2 if n <= 100 else 3
    return usual if data.get("image_size", 0) >= 32 else max(1, min(usual, memory // (2 * n)))


def _pooling(data: dict[str, Any], run: dict[str, Any]) -> object:
    if "coefficient" in run["config"]:
        return "global"  # of the mutual-information family, whatever the images
    return ("global" if data["image_size"] < 32 else "avg4") if data else UNKNOWN


def _lr_img(images_per_class: int) -> float:
    return 2e-4 if images_per_class <= 1 else 1e-3 if images_per_class <= 5 else 4e-3


#: Constants that followed from the problem: from the other defaults, the data set, the run and its number of classes.
_DERIVED: dict[str, Callable[[dict[str, Any], dict[str, Any], dict[str, Any], int], Any]] = {
    "mean": lambda plain, data, run, n: data.get("mean", UNKNOWN) if plain["normalize"] else [0.0, 0.0, 0.0],
    "std": lambda plain, data, run, n: data.get("std", UNKNOWN) if plain["normalize"] else [1.0, 1.0, 1.0],
    "pooling": lambda plain, data, run, n: _pooling(data, run),
    "pool": lambda plain, data, run, n: 5 * run["protocol"]["replay_batch"],
    "virtual_lr": lambda plain, data, run, n: run["config"]["lr"],
    "n_smp_cls": lambda plain, data, run, n: _samples_per_class(data, run["memory"], n),
    "epochs": lambda plain, data, run, n: 30,
    "batch": lambda plain, data, run, n: run["protocol"]["batch"],
    "schedule": lambda plain, data, run, n: "constant",
    "cutmix": lambda plain, data, run, n: 0.0,
    "augment": lambda plain, data, run, n: False,
    "dl_weight": lambda plain, data, run, n: 2.0 if n <= 10 else 4.0,
    "images_per_class": lambda plain, data, run, n: run["memory"] // n,
    "lr_img": lambda plain, data, run, n: _lr_img(run["memory"] // n),
    "queue": lambda plain, data, run, n: 12 if run["dataset"] == "digits" else 64,
    "coefficient": lambda plain, data, run, n: 0.5 if run["dataset"] == "cifar10" else 1.0,
    "proj_dim": lambda plain, data, run, n: min(128, 4 * 8 * run["protocol"]["width"] // 5),
    "mixup_p": lambda plain, data, run, n: 0.6 if run["dataset"] == "cifar10" else 0.2,
    "base_rate": lambda plain, data, run, n: 0.75 if run["dataset"] == "cifar10" else 0.9,
}
