"""What a method is told before the stream begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

REDUCED_RESNET18 = "reduced_resnet18"  #: the backbone of the paper, and the default
MOST_MEMORY = 10_000_000  #: images; one of 32 px takes 3 kB


@dataclass(frozen=True)
class Problem:
    """The shape of the experiment, known to every method. Nothing here depends on the seed.

    Defaults are those of a run's `Protocol`, which takes them from here.
    """

    dataset: str  #: registry name; constants that the papers give per data set are looked up by it
    n_classes: int
    n_tasks: int
    image_size: int  #: side in pixels
    memory: int  #: slots; 0 for a method without memory
    batch: int = 10  #: stream batch
    replay_batch: int = 64
    width: int = 20  #: nf of the reduced ResNet-18
    reservoir: Literal["batched", "textbook"] = "batched"
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)  #: of the data set's pixels in 0-1
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    backbone: str = REDUCED_RESNET18
    task_sizes: tuple[int, ...] = ()  #: classes of each task; unless given, equal parts

    def __post_init__(self) -> None:
        if not self.task_sizes:
            object.__setattr__(self, "task_sizes", (self.n_classes // self.n_tasks,) * self.n_tasks)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        return (3, self.image_size, self.image_size)
