"""Nearest class mean over the memory."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from emi_bench.draws import Draws
from emi_bench.memory import Memory
from emi_bench.nets.ncm import memory_means, nearest_class
from emi_bench.testing import ScriptedDraws


def filled_memory(labels: list[int], size: int = 20) -> Memory:
    memory = Memory(size, (3, 2, 2), dtype=torch.float64)
    x = torch.rand(len(labels), 3, 2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    memory.update(x - 0.5, torch.tensor(labels), Draws(0))
    return memory


def flat(x: torch.Tensor) -> torch.Tensor:
    return x.flatten(1)


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_means_are_those_of_a_loop_over_classes_whatever_the_batch(batch: int) -> None:
    labels = [5, 2, 5, 5, 9, 2, 5]
    memory = filled_memory(labels)
    means = memory_means(flat, memory, [9, 5, 2], Draws(0), batch)
    for mean, c in zip(means, [9, 5, 2], strict=True):
        mine = torch.stack([F.normalize(memory.images[i].flatten(), dim=0) for i in range(7) if labels[i] == c])
        torch.testing.assert_close(mean, F.normalize(mine.mean(0), dim=0))


def test_prediction_is_the_smallest_distance_between_unit_vectors() -> None:
    memory = filled_memory([0, 1, 2, 0, 1, 2, 2])
    means = memory_means(flat, memory, [0, 1, 2], Draws(0))
    x = torch.randn(50, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    distance = torch.cdist(F.normalize(x, dim=1), means)
    assert torch.equal(nearest_class(x, means), distance.argmin(1))
    assert len(nearest_class(x, means).unique()) == 3


def test_classes_not_asked_for_leave_no_trace() -> None:
    with_third = memory_means(flat, filled_memory([0, 1, 7, 7]), [0, 1], Draws(0))
    torch.testing.assert_close(with_third, memory_means(flat, filled_memory([0, 1]), [0, 1], Draws(0)))


def test_a_class_without_images_gets_a_drawn_direction() -> None:
    direction = torch.arange(12.0)
    draws = ScriptedDraws({"mean.4": [direction]})
    means = memory_means(flat, filled_memory([0, 1]), [0, 4, 1], draws)
    torch.testing.assert_close(means[1], F.normalize(direction.double(), dim=0))
    assert not draws.left()


def test_an_empty_memory_gives_directions_only_and_takes_its_draws_back() -> None:
    draws = Draws(3)
    before = draws.state()
    means = memory_means(flat, Memory(5, (3, 2, 2), dtype=torch.float32), [0, 1], draws)
    assert means.shape == (2, 12)
    torch.testing.assert_close(means.norm(dim=1), torch.ones(2))
    assert draws.state() == before
