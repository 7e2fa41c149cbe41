"""The nearest-class-mean classifier of SCR, SSD, MOSE: class means of the memory's features (Rebuffi et al. 2017)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from emi_bench.draws import Draws
from emi_bench.losses.precision import full_precision
from emi_bench.memory import Memory
from emi_bench.nets.heads import normalised


@torch.no_grad()
def memory_means(
    features: Callable[[Tensor], Tensor], memory: Memory, classes: Sequence[int], draws: Draws, batch: int = 256
) -> Tensor:
    """Unit means (K,D) of the unit features of each class's stored images; (E,K,D) where there are E features of each.

    `features` maps stored images to features and is expected to be in eval mode, where a batch of any size gives each
    image the same features. A class without images gets a random direction (purpose `mean.<class>`). Those draws are
    taken back: how often a run is evaluated does not change what it goes on to do.
    """
    wanted = torch.tensor(classes, device=memory.labels.device)
    sums: Tensor | None = None
    for start in range(0, memory.filled, batch):
        stop = min(start + batch, memory.filled)
        part = sums_by_class(features(memory.images[start:stop]), memory.labels[start:stop], wanted)
        sums = part if sums is None else sums + part
    if sums is None:
        shape = memory.images.shape[1:]
        sums = sums_by_class(features(memory.images.new_zeros(1, *shape)), wanted.new_full((1,), -1), wanted)
    missing = [i for i, c in enumerate(classes) if not memory.slots_of(c)]
    if missing:
        state = draws.state()
        directions = torch.stack([draws.normal(f"mean.{classes[i]}", sums.shape[-1]) for i in missing])
        draws.restore(state)
        sums[..., missing, :] = directions.to(sums)
    return normalised(sums)


@full_precision
def sums_by_class(features: Tensor, labels: Tensor, classes: Tensor) -> Tensor:
    """For each class the sum of the unit features that carry its label: (...,n,D), (n,), (K,) -> (...,K,D).

    A product with the membership matrix, because a scatter-add has no fixed order of summation on a GPU.
    A mean that is normalised afterwards needs no division by the count.
    """
    u = normalised(features)
    return (classes[:, None] == labels).to(u.dtype) @ u


@full_precision
def nearest_class(features: Tensor, means: Tensor) -> Tensor:
    """Index (n,) of the class mean with the largest cosine, which is the smallest distance between unit vectors.

    >>> nearest_class(torch.tensor([[3.0, 4.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    tensor([1])
    """
    return (features @ means.T).argmax(1)


@full_precision
def squared_distances(features: Tensor, means: Tensor) -> Tensor:
    """2 - 2 cos of features, which are brought to length one, to unit means: (...,n,D), (...,K,D) -> (...,n,K)."""
    return 2 - 2 * normalised(features) @ means.mT
