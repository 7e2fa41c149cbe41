"""GDumb: collect a balanced memory, train a new network on it when asked (Prabhu et al., ECCV 2020)."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field, field_validator
from torch import Tensor, nn

from emi_bench.data.views.cutmix import cutmix
from emi_bench.data.views.pad_crop import pad_crop_flip
from emi_bench.memory.greedy_balanced import greedy_balanced
from emi_bench.methods.base import EMA, Losses, Method, MethodConfig, View
from emi_bench.nets.weights import seeded_weights
from emi_bench.problem import Problem


class GDumbConfig(MethodConfig):
    """Two recipes for the training at a task's end. A field left alone takes its recipe's value."""

    recipe: Literal["reference", "original"] = "reference"
    """The reference framework's plain training (SGD 0.1, 30 epochs, constant rate, stream batch, no augmentation), or
    the paper's: SGD 0.05 with momentum 0.9 and weight decay 1e-6, 256 epochs (Tiny-ImageNet 128), batch 16, cosine
    restarts, CutMix, crops and flips of normalised pixels."""
    epochs: int | None = Field(None, ge=1)
    """Passes over the memory after every task."""
    batch: int | None = Field(None, ge=1)
    """Samples a training step; the incomplete last batch of an epoch is left out (reference framework)."""
    clip: float = Field(10.0, gt=0)
    """Largest L2 norm of the whole gradient (both recipes)."""
    schedule: Literal["constant", "cosine_restarts"] | None = None
    """Learning rate over the epochs; the cosine restarts at epochs 2, 4, 8, ... after a warm-up of one."""
    min_lr: float = Field(5e-4, ge=0)
    """Where the cosine ends (original recipe). Unused with a constant rate."""
    cutmix: float | None = Field(None, ge=0, le=1)
    """Probability of CutMix for a batch."""
    augment: bool | None = None
    """Random crops with 4 pixels of padding, and flips."""

    @field_validator("ema")
    @classmethod
    def _no_average(cls, ema: EMA | None) -> EMA | None:
        if ema is not None:
            raise ValueError("GDumb trains a new network after every task: there is nothing to average over the stream")
        return ema

    @classmethod
    def modern(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        return {}  # its recipe is its own

    def resolve(self, problem: Problem) -> Self:
        original = self.recipe == "original"
        recipe: dict[str, Any] = {
            "epochs": (128 if problem.dataset == "tinyimagenet" else 256) if original else 30,
            "batch": 16 if original else problem.batch,
            "schedule": "cosine_restarts" if original else "constant",
            "cutmix": 0.5 if original else 0.0,
            "augment": original,
        }
        values = {name: value for name, value in recipe.items() if getattr(self, name) is None}
        if original:
            optimizer = {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-6, "normalize": True}
            values |= {name: value for name, value in optimizer.items() if name not in self.model_fields_set}
        return super(GDumbConfig, self.model_copy(update=values)).resolve(problem)


class GDumb(Method):
    """Nothing is learnt from the stream but what to keep; every task's end starts from new weights.

    A network to be trained anew is reset by `reset_parameters` of its outermost modules that have one, on the CPU and
    from a seed of its own, so that all devices start alike.

    Draws: `evict` (the slot to clear); at a task's end `gdumb_weights` (seed), for every epoch `gdumb_epoch` (the
    order of the filled slots); the original recipe adds `cutmix` (a coin a batch), those of `cutmix` and of its view.
    """

    name = "gdumb"
    title = "GDUMB"
    cite = "prabhu2020gdumb"
    place = 7
    colour = "#999933"
    marker = "P"
    uses_task_ends = True
    learns_in_steps = False
    config_class = GDumbConfig
    config: GDumbConfig

    @classmethod
    def forwards(cls, config: MethodConfig, problem: Problem) -> float:
        return 0.0  # its steps only collect

    @classmethod
    def end_forwards(cls, config: MethodConfig, problem: Problem, n_seen: int) -> float:
        assert isinstance(config, GDumbConfig)
        assert config.epochs is not None
        return 3.0 * config.epochs * min(problem.memory, n_seen)

    @classmethod
    def make_view(cls, config: MethodConfig, problem: Problem) -> View | None:
        assert isinstance(config, GDumbConfig)
        return pad_crop_flip if config.augment else None

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        self.note_classes(y)
        self.memory.write_in_turn(greedy_balanced(y.tolist(), self.memory, self.draws), x, y)
        self.memory.n_seen += len(x)
        return {}

    def end_task(self) -> None:
        super().end_task()
        self.restart()
        if self.memory.filled:
            self.train_on_memory()

    def restart(self) -> None:
        """New weights, a new optimiser."""
        fresh = copy.deepcopy(self.net).cpu()
        with seeded_weights(self.draws.seed("gdumb_weights")):
            reset(fresh)
        self.net.load_state_dict(fresh.state_dict())
        self.optimizer = self.make_optimizer(self.net.parameters())

    def train_on_memory(self) -> None:
        """All epochs; a memory smaller than a batch is one batch."""
        c = self.config
        assert c.epochs is not None
        assert c.batch is not None
        filled = self.memory.filled
        batch = min(c.batch, filled)
        self.net.train()
        for epoch in range(c.epochs):
            for group in self.optimizer.param_groups:
                group["lr"] = restarting_cosine(epoch, c.lr, c.min_lr) if c.schedule == "cosine_restarts" else c.lr
            order = self.draws.permutation("gdumb_epoch", filled).to(self.device, non_blocking=True)
            for slots in torch.split(order[: filled - filled % batch], batch):
                self.learn(*self.memory.at(slots))

    def learn(self, x: Tensor, labels: Tensor) -> None:
        """One clipped step on stored images; crops come before normalisation, so that their frame is black."""
        images = self.pixels(self.view_of(x))
        if self.config.cutmix and self.draws.bernoulli("cutmix", self.config.cutmix):
            images, other, lam = cutmix(images, self.draws)
            logits = self.net(images)
            loss = lam * F.cross_entropy(logits, labels) + (1 - lam) * F.cross_entropy(logits, labels[other])
        else:
            loss = F.cross_entropy(self.net(images), labels)
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.net.parameters(), self.config.clip)
        self.optimizer.step()


def restarting_cosine(epoch: int, max_lr: float, min_lr: float) -> float:
    """A tenth of max_lr at epoch 0, max_lr at 1, then a cosine from max_lr towards min_lr that restarts at 2, 4, 8, ...

    With s = 2^floor(log2 e):  min_lr + (max_lr - min_lr) / 2 * (1 + cos(pi (e - s) / s)).

    >>> [round(restarting_cosine(e, 0.05, 0.0005), 5) for e in range(6)]
    [0.005, 0.05, 0.05, 0.02525, 0.05, 0.04275]
    """
    if epoch < 2:
        return max_lr if epoch else 0.1 * max_lr
    start = 1 << (epoch.bit_length() - 1)
    return min_lr + (max_lr - min_lr) / 2 * (1 + math.cos(math.pi * (epoch - start) / start))


def reset(module: nn.Module) -> None:
    """Draw the weights anew: `reset_parameters` where a module has it, of its children where it has not."""
    own = getattr(module, "reset_parameters", None)
    if callable(own):
        own()
        return
    for child in module.children():
        reset(child)
