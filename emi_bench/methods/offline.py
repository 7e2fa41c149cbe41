"""Offline: the same network trained on all tasks together. The upper bound."""

from __future__ import annotations

from pydantic import Field

from emi_bench.methods.base import MethodConfig
from emi_bench.methods.finetune import FineTune


class OfflineConfig(MethodConfig):
    """The paper states 30 epochs; batch and optimiser are those of the reference framework."""

    epochs: int = Field(30, ge=1)
    """Passes over the union of all tasks (EMI paper)."""
    batch: int = Field(128, ge=1)
    """Samples a step; the last incomplete batch of an epoch is left out (reference framework)."""


class Offline(FineTune):
    """Fine-tune's step on shuffled batches of the whole data set. The loop reads `joint`, `epochs` and `batch`."""

    name = "offline"
    title = "offline"
    place = 1
    role = "bound"
    colour = "#404040"
    line = "--"
    uses_memory = False
    joint = True
    config_class = OfflineConfig
    config: OfflineConfig
