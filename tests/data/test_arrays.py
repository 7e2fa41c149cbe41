"""What a user's arrays must be, and what is said when they are not."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from emi_bench.data import load
from emi_bench.data.arrays import checked, content_sha256, mean_and_std
from emi_bench.errors import UserError
from tests.data.fakes import arrays, write_npz

SOUND = arrays()
BAD = {
    "float pixels": ({"x_train": SOUND["x_train"] / 255.0}, "x_train is float64, not uint8"),
    "channels first": ({"x_train": SOUND["x_train"].transpose(0, 3, 1, 2)}, r"transpose\(0, 2, 3, 1\)"),
    "flat images": ({"x_test": SOUND["x_test"].reshape(8, -1)}, "x_test has the shape"),
    "not square": ({"x_train": SOUND["x_train"][:, :6]}, "must be square"),
    "two sizes": ({"x_test": SOUND["x_test"][:, :6, :6]}, "one size"),
    "no images": ({"x_test": SOUND["x_test"][:0], "y_test": SOUND["y_test"][:0]}, "x_test is empty"),
    "float labels": ({"y_train": SOUND["y_train"].astype(float)}, "y_train is float64, not integers"),
    "one-hot labels": ({"y_train": np.eye(4, dtype=int)[SOUND["y_train"]]}, r"y_train has the shape \(24, 4\)"),
    "too few labels": ({"y_train": SOUND["y_train"][:-1]}, "23 labels for 24 images"),
    "labels from one": ({"y_train": SOUND["y_train"] + 1, "y_test": SOUND["y_test"] + 1}, "must be 0 to 3"),
    "negative label": ({"y_train": np.where(SOUND["y_train"] == 0, -1, SOUND["y_train"])}, "-1, 1, 2, 3"),
    "gap": ({"y_train": np.where(SOUND["y_train"] == 3, 7, SOUND["y_train"])}, "without gaps"),
    "untested class": ({"y_test": SOUND["y_test"] % 3}, "labels 3 are in only one"),
    "one class": ({"y_train": SOUND["y_train"] * 0, "y_test": SOUND["y_test"] * 0}, "only one class"),
    "names": ({"class_names": np.array(["a", "b"])}, "2 class names for 4 classes"),
    "absent array": ({"y_test": None}, "has no y_test"),
    "pickled objects": ({"y_test": np.array([0, "a", None, 1, 2, 3, 1, 2], dtype=object)}, "cannot be read as an .npz"),
}


@pytest.mark.parametrize("case", BAD)
def test_unsound_npz_is_refused_with_the_reason(case: str, tmp_path: Path) -> None:
    changes, message = BAD[case]
    path = write_npz(tmp_path / "mine.npz", **changes)
    with pytest.raises(UserError, match=message) as error:
        load(f"npz:{path}", tmp_path)
    assert str(path) in error.value.message
    assert error.value.hint


def test_greyscale_arrays_get_three_equal_channels() -> None:
    a = SOUND | {"x_train": SOUND["x_train"][..., 0], "x_test": SOUND["x_test"][..., :1]}
    out = checked("here", **a)
    for channel in range(3):
        assert np.array_equal(out.x_train[..., channel], SOUND["x_train"][..., 0])
        assert np.array_equal(out.x_test[..., channel], SOUND["x_test"][..., 0])


def test_fingerprint_is_of_image_bytes_then_label_bytes() -> None:
    x, y = SOUND["x_train"], SOUND["y_train"]
    assert content_sha256(x, y, 4) == hashlib.sha256(x.tobytes() + y.astype(np.uint8).tobytes()).hexdigest()
    swapped = x.copy()
    swapped[0, 0, 0, 0] ^= 1
    assert content_sha256(swapped, y, 4) != content_sha256(x, y, 4)


def test_labels_over_256_classes_enter_the_fingerprint_as_uint16() -> None:
    x, y = np.zeros((300, 1, 1, 3), np.uint8), np.arange(300)
    assert content_sha256(x, y, 300) == hashlib.sha256(x.tobytes() + y.astype("<u2").tobytes()).hexdigest()
    assert content_sha256(x, y, 300) != content_sha256(x, y % 256, 300)


def test_mean_and_std_are_those_of_the_pixels() -> None:
    x = SOUND["x_train"]
    mean, std = mean_and_std(x)
    assert mean == pytest.approx((x / 255).mean((0, 1, 2)), abs=5.1e-5)
    assert std == pytest.approx((x / 255).std((0, 1, 2)), abs=5.1e-5)
