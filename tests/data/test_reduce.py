"""A smaller data set is cut by rules that anyone can follow by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emi_bench.data import DataSet, Reduction, checked, get_info, load
from emi_bench.data.arrays import content_sha256
from emi_bench.data.reduce import averaged
from emi_bench.errors import UserError
from emi_bench.run.loop import run
from emi_bench.run.resolve import resolve
from emi_bench.store import Store, load_runs
from emi_bench.sweep.check import read_sweep
from emi_bench.sweep.cost import load_of
from emi_bench.sweep.plan import expand
from tests.sweep.sweeping import ask, sweep_file
from tests.synthetic import FAST, spec

PART: dict[str, int] = {"image_size": 4, "train_per_class": 50, "test_per_class": 20}


def test_a_pixel_is_the_mean_of_its_square_rounded_half_up() -> None:
    image = np.array([[0, 1, 10, 20], [0, 1, 30, 41], [255, 255, 3, 3], [255, 254, 3, 4]], np.uint8)
    small = averaged(np.repeat(image[None, :, :, None], 3, axis=3), 2)
    # means 0.5, 25.25, 254.75 and 3.25
    np.testing.assert_array_equal(small[0, :, :, 0], [[1, 25], [255, 3]])
    np.testing.assert_array_equal(small[..., 0], small[..., 2])
    # a wider square, and white stays white
    assert averaged(np.full((1, 8, 8, 3), 255, np.uint8), 2).tolist() == np.full((1, 2, 2, 3), 255).tolist()


def test_the_first_images_of_each_class_stay_in_the_published_order() -> None:
    y = np.array([2, 0, 1, 0, 2, 1, 0, 1, 2])
    x = np.arange(9, dtype=np.uint8)[:, None, None, None] * np.ones((1, 4, 4, 3), np.uint8)
    data = DataSet.from_arrays("toy", checked("toy", x, y, x, y))
    part = Reduction(train_per_class=2, test_per_class=1).apply(data)
    assert part.x_train[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert part.y_train.tolist() == [2, 0, 1, 0, 2, 1]
    assert part.x_test[:, 0, 0, 0].tolist() == [0, 1, 2]
    assert part.info.train_sha256 == content_sha256(x[:6], y[:6], 3)


def test_what_is_kept_is_a_part_of_the_real_one_with_a_fingerprint_of_its_own() -> None:
    whole, part = load("digits"), load("digits", reduction=Reduction(**PART))
    assert (tuple(part.x_train.shape), len(part.y_test), part.n_classes) == ((500, 3, 4, 4), 200, 10)
    assert part.info.train_sha256 != whole.info.train_sha256
    assert part.info.train_sha256 == content_sha256(part.x_train.permute(0, 2, 3, 1).numpy(), part.y_train.numpy(), 10)
    assert load("digits", reduction=Reduction()).fingerprint == whole.fingerprint


def test_a_run_sees_the_part_and_says_so_in_its_result(tmp_path: Path) -> None:
    one = spec(**PART)
    part = load("digits", reduction=one.protocol.reduction)
    result = run(one, part)
    Store(tmp_path).write(result)
    stored = load_runs(tmp_path).iloc[0]
    assert stored["data_fingerprint"] == part.fingerprint
    assert stored["protocol"] == one.protocol.model_dump()
    assert result.n_test == [40] * 5
    with pytest.raises(ValueError, match="the spec says"):
        run(one, load("digits"))


def test_every_seed_and_method_sees_the_same_images() -> None:
    keys = {spec(m, seed=s, **PART).data_key for m in ("er", "emi") for s in (0, 1)}
    assert keys == {("digits", Reduction(**PART))}


def test_a_method_is_told_the_smaller_size() -> None:
    assert resolve("er", "cifar10", memory=200).config["pooling"] == "avg4"
    assert resolve("er", "cifar10", memory=200, protocol={"image_size": 16}).config["pooling"] == "global"


def test_the_estimated_cost_is_that_of_the_part() -> None:
    whole, part = resolve("er", "cifar10", memory=200), resolve("er", "cifar10", memory=200, protocol=PART)
    assert load_of(part).steps == load_of(whole).steps / 100


@pytest.mark.parametrize(
    ("protocol", "says", "hint"),
    [
        ({"image_size": 5}, "image_size 5 does not divide the 32 pixels of cifar10", "4, 8, 16, 32"),
        ({"image_size": 64}, "image_size 64 does not divide", "16"),
        ({"image_size": 2}, "image_size", "averaged down"),
        ({"train_per_class": 5001}, "more than cifar10 has: 50000 images of 10 classes", "5000 or less"),
        ({"test_per_class": 1001}, "test_per_class 1001", "1000 or less"),
        ({"train_per_class": 0}, "train_per_class", "Training images a class"),
    ],
)
def test_what_the_data_cannot_give_is_refused(protocol: dict[str, Any], says: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as told:
        resolve("er", "cifar10", memory=200, protocol=protocol)
    assert says in told.value.message
    assert hint in told.value.hint
    file = tmp_path / "part.yaml"
    file.write_text(f"name: part\nmethods: [er]\nsettings: [{{dataset: cifar10, memory: 200}}]\nseeds: 1\n"
                    f"protocol: {protocol}\n")  # fmt: skip
    key = next(iter(protocol))
    with pytest.raises(UserError, match=f"protocol.{key}"):
        expand(*read_sweep(file))


def test_a_class_with_too_few_images_is_named() -> None:
    """The description of digits gives 397 test images of 10 classes; one class has 34 of them."""
    Reduction(test_per_class=36).check(get_info("digits"))
    with pytest.raises(UserError, match=r"more than class .* has: 34 images"):
        load("digits", reduction=Reduction(test_per_class=36))


def test_all_there_is_is_the_same_run_as_saying_nothing() -> None:
    whole = {"image_size": 32, "train_per_class": 5000, "test_per_class": 1000}
    plain = resolve("er", "cifar10", memory=200)
    assert resolve("er", "cifar10", memory=200, protocol=whole).run_id == plain.run_id
    ids = {resolve("er", "cifar10", memory=200, protocol={k: v // 2}).run_id for k, v in whole.items()}
    assert len(ids | {plain.run_id}) == 4


def test_a_sweep_shares_parts_and_the_whole_of_one_data_set(tmp_path: Path) -> None:
    file = sweep_file(tmp_path, seeds=1, batch=50)
    setting = "  - dataset: digits\n    memory: 40\n"
    file.write_text(file.read_text().replace(setting, setting + setting + f"    protocol: {PART}\n"))
    ask("sweep", file, "--results", tmp_path / "results", "--executor", "inline")
    runs = load_runs(tmp_path / "results")
    assert len(runs) == 2
    for row in runs.to_dict("records"):
        reduction = Reduction(**{k: row["protocol"][k] for k in PART})
        data = load("digits", reduction=reduction)
        assert row["data_fingerprint"] == data.fingerprint
        again = resolve("er", "digits", memory=40, protocol=FAST | {"replay_batch": 5} | row["protocol"])
        np.testing.assert_array_equal(row["matrix"], run(again, data).matrix)
