"""`emi-bench data inspect`: what a user sees of a data set before the first run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from emi_bench.cli import app as cli
from emi_bench.errors import UserError
from tests.data.fakes import arrays, write_npz


def inspect(*words: str | Path) -> str:
    answer = CliRunner().invoke(cli.app, ["data", "inspect", *map(str, words)], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.output


def test_classes_counts_tasks_and_a_picture(tmp_path: Path) -> None:
    told = inspect("digits", "--out", tmp_path / "digits.png")
    rows = [line.split() for line in told.splitlines()]
    assert "10 classes, 1400 training and 397 test images of 8x8" in told
    assert ["3", "3", "140", "43", "1"] in rows
    assert ["1", "280", "84", "6,", "3"] in rows  # the order of seed 0
    with Image.open(tmp_path / "digits.png") as made:
        pixels = np.asarray(made)
    assert len(pixels) == 10 * (32 + 2) + 2
    assert 0 < pixels.mean() < 255


def test_the_picture_has_the_first_training_images_of_each_class(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "birds.npz", class_names=np.array(["auk", "bee-eater", "crow", "dove"]))
    inspect(f"npz:{path}", "--out", tmp_path / "birds.png")
    with Image.open(tmp_path / "birds.png") as made:
        pixels = np.asarray(made)
    content = arrays()
    first = content["x_train"][content["y_train"] == 2][0]
    scale, side = 32 // len(first), 34
    at = pixels[2 + 2 * side : 2 + 2 * side + 32, -10 * side :][:, :32]
    np.testing.assert_array_equal(at[::scale, ::scale], first)


def test_own_data_without_and_with_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_npz(tmp_path / "birds.npz", class_names=np.array(["auk", "bee-eater", "crow", "dove"]))
    assert "No tasks yet: --n-tasks N" in inspect(f"npz:{path}")
    assert [p.name.startswith("birds-") for p in tmp_path.glob("*.png")] == [True]
    told = inspect(f"npz:{path}", "--tasks", "[[dove], [auk, 2]]")
    assert "3 classes" in told
    assert ["2", "12", "4", "auk,", "crow"] in [line.split() for line in told.splitlines()]
    with pytest.raises(UserError, match="do not split into 3"):
        inspect(f"npz:{path}", "--n-tasks", "3")
    with pytest.raises(UserError, match="is not a list"):
        inspect(f"npz:{path}", "--tasks", "[[dove")
    with pytest.raises(UserError, match="cannot be written"):
        inspect(f"npz:{path}", "--out", tmp_path / "no" / "such.png")
