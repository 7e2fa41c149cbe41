"""The 16-fold rotation set."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from emi_bench.data.views import rot16, rot16_labels
from tests.golden_files import golden

CASES = golden("ocm_rotation")["cases"]
X, Y = torch.arange(2 * 3 * 4 * 4).view(2, 3, 4, 4), torch.tensor([3, 8])


def test_order_and_pixels_are_the_recorded_ones() -> None:
    out = rot16(X)
    assert list(out.shape) == CASES["cifar10"]["shape"]
    assert out[:8, 0].tolist() == CASES["cifar10"]["inner"]
    assert out[:, 0].tolist() == CASES["cifar10"]["full_channel0"]


@pytest.mark.parametrize("case", ["cifar100", "tiny"])
def test_other_sources_form_the_same_pseudo_classes(case: str) -> None:
    """Their copies come in another order; which images share a label is the same."""
    theirs = CASES[case]
    mine = {
        (tuple(map(tuple, image)), y % 1000) for image, y in zip(rot16(X)[:, 0].tolist(), Y.tolist() * 16, strict=True)
    }
    images = [tuple(map(tuple, image)) for image in theirs["full_channel0"]]
    assert {(image, y % 1000) for image, y in zip(images, theirs["labels"], strict=True)} == mine
    assert theirs["labels"] == rot16_labels(Y, 1000).tolist()


@settings(deadline=None)
@given(st.integers(1, 3), st.sampled_from([2, 3, 8]), st.sampled_from(["uint8", "float32", "float64"]))
def test_pixels_are_permuted_and_the_first_rows_are_the_images(n: int, side: int, dtype: str) -> None:
    x = torch.randint(0, 255, (n, 3, side, side)).to(getattr(torch, dtype))
    x = x.contiguous(memory_format=torch.channels_last)
    out = rot16(x)
    assert out.dtype == x.dtype
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(out[:n], x)
    pixels = x.flatten(2).sort(2).values
    for copy in out.split(n):
        assert torch.equal(copy.flatten(2).sort(2).values, pixels)


def test_sixteen_copies_differ() -> None:
    assert len({tuple(image.flatten().tolist()) for image in rot16(X)}) == 32


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(10, 1000))
def test_labels_name_class_and_copy(labels: list[int], n_classes: int) -> None:
    out = rot16_labels(torch.tensor(labels), n_classes)
    assert (out % n_classes).tolist() == labels * 16
    assert (out // n_classes).tolist() == [m for m in range(16) for _ in labels]
