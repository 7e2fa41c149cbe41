"""SSD: the memory keeps summaries of the stream, optimised online (Gu et al., AAAI 2024, arXiv 2305.16645)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Literal, Self, cast

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from emi_bench.data.views import diffaug
from emi_bench.errors import UserError
from emi_bench.losses.matching import Distance, Match, matching_loss
from emi_bench.memory.summary import Summaries, SummaryMemory
from emi_bench.methods.base import Losses, MethodConfig, View
from emi_bench.methods.scr import SCR, SCRConfig
from emi_bench.nets.convnet import ConvNet
from emi_bench.nets.optimizers import SGD
from emi_bench.nets.weights import seeded_weights
from emi_bench.problem import Problem


class SSDConfig(SCRConfig):
    """The authors' defaults for what the paper's protocol leaves open; `temperature` and the rest are SCR's."""

    normalize: Literal[False] = False
    """Never: the summaries live in the units of the network, and the source has pixels in 0-1."""
    images_per_class: int | None = Field(None, ge=0)
    """Summary slots of a class: M/C, rounded down (the authors state 10 for CIFAR-100 with M = 1000)."""
    lr_img: float | None = Field(None, gt=0)
    """Learning rate of the summaries: 2e-4, 1e-3, 4e-3 for up to 1, up to 5, more images a class (a public fork's)."""
    momentum_img: float = Field(0.9, ge=0, lt=1)
    """Momentum of the summaries, one buffer for all classes of a task (authors)."""
    queue: int | None = Field(None, ge=1)
    """Newest stream batches that stand for the real images: 64 (authors); 12 for digits, with 28 batches a task."""
    interval: int = Field(6, ge=1)
    """Iterations between two summarise events (authors)."""
    match: Match = "grad"
    """What is matched: the helper's gradients, its features, or the mean of both (authors)."""
    metric: Distance = "mse"
    """Distance of two gradients and of two mean features: the summed squared error (authors)."""
    mem_sim_num: int = Field(10, ge=1)
    """Summaries of past tasks in the relation term (authors)."""
    mem_weight: float = Field(1.0, ge=0)
    """Weight of the relation term (authors)."""
    mem_extra: bool = True
    """Whether the relation term is added; if not, both are mixed with weights 1 - mem_weight and mem_weight."""
    helper_width: int = Field(128, ge=1)
    """Channels of the helper ConvNet (authors)."""
    helper_lr: float = Field(0.01, ge=0)
    """Learning rate of the helper (authors)."""
    helper_momentum: float = Field(0.9, ge=0, lt=1)
    """Momentum of the helper (authors)."""
    helper_batch: int = Field(10, ge=1)
    """Images of a helper step, and real memory images that join the stream batch for it (authors)."""
    stream: Literal["shuffled", "balanced"] = "shuffled"
    """The common stream of all methods; `balanced` is the source's, with equal class counts in every batch."""

    def resolve(self, problem: Problem) -> Self:
        ipc = problem.memory // problem.n_classes if self.images_per_class is None else self.images_per_class
        if ipc * problem.n_classes > problem.memory:
            raise UserError(
                f"{ipc} summaries for each of {problem.n_classes} classes need {ipc * problem.n_classes} slots, "
                f"the memory has {problem.memory}",
                hint=f"set images_per_class to {problem.memory // problem.n_classes} or less, or leave it out",
            )
        per_task = max(problem.task_sizes)
        if self.stream == "balanced" and per_task > problem.batch:
            raise UserError(
                f"a batch of {problem.batch} cannot hold all {per_task} classes of a task",
                hint=f"a balanced stream needs a batch of {per_task} or more; or leave `stream` at shuffled",
            )
        lr_img = 2e-4 if ipc <= 1 else 1e-3 if ipc <= 5 else 4e-3
        queue = 12 if problem.dataset == "digits" else 64
        values = {"images_per_class": ipc, "lr_img": self.lr_img or lr_img, "queue": self.queue or queue}
        return super().resolve(problem).model_copy(update=values)


class Task:
    """What SSD holds during one task and drops at its end."""

    def __init__(self, config: SSDConfig, helper: nn.Module, past: list[int], past_slots: list[int]) -> None:
        assert config.lr_img is not None
        self.iteration = 0
        self.past = past  # classes of earlier tasks
        self.past_slots = past_slots  # their summaries, frozen
        self.helper = helper
        self.optimizer = SGD(helper.parameters(), config.helper_lr, config.helper_momentum, foreach=True)
        self.summaries = Summaries(config.lr_img, config.momentum_img)
        self.queue: deque[tuple[Tensor, list[int]]] = deque(maxlen=config.queue)

    def real(self, classes: list[int]) -> list[Tensor]:
        """For each class all its images in the queue, oldest first."""
        images, labels = torch.cat([x for x, _ in self.queue]), np.concatenate([y for _, y in self.queue])
        rows = (torch.from_numpy(np.flatnonzero(labels == c)) for c in classes)
        return [images[r.to(images.device, non_blocking=True)] for r in rows]


class SSD(SCR):
    """SCR's step on a memory of summaries; every sixth step the summaries of the batch's classes are improved.

    The network is SCR's. `helper(k)` makes the helper network for k classes, with `features(x)` and
    `logits(features)`, at the first batch of each task; `match_view` augments real and summarised images together.
    Classes are numbered for the helper in the order of their arrival, and k counts those of the whole current task,
    which it knows from the number of tasks.

    Draws: SCR's, with `reservoir` and `summary` as `SummaryMemory` asks for them; `helper` (a seed, once a task);
    `relation` (slots of past summaries, once for each class of an event); `helper.replay` (slots of real images) and
    `helper.order` (a permutation) once a step; those of the view; those of the matching view, as `relation`.
    """

    name = "ssd"
    title = "SSD"
    cite = "gu2024summarizing"
    place = 11
    colour = "#cc79a7"
    marker = "h"
    uses_task_ends = True
    queues_stream = True
    config_class = SSDConfig
    config: SSDConfig
    memory: SummaryMemory

    @classmethod
    def forwards(cls, config: MethodConfig, problem: Problem) -> float:
        return 12.0 * (problem.batch + problem.replay_batch)

    @property
    def balanced_stream(self) -> bool:
        return self.config.stream == "balanced"

    def __init__(
        self,
        config: MethodConfig,
        problem: Problem,
        *,
        helper: Callable[[int], nn.Module] | None = None,
        match_view: View = diffaug,
        **parts: Any,
    ) -> None:
        super().__init__(config, problem, **parts)
        self.helper = helper or self.make_helper
        self.match_view = match_view
        self.task: Task | None = None

    @classmethod
    def make_memory(cls, config: MethodConfig, problem: Problem) -> SummaryMemory:
        ipc = cast(SSDConfig, config).images_per_class
        assert ipc is not None
        return SummaryMemory(problem.memory, problem.image_shape, images_per_class=ipc, reservoir=problem.reservoir)

    def make_helper(self, n_classes: int) -> nn.Module:
        """A fresh ConvNet."""
        with seeded_weights(self.draws.seed("helper")):
            net = ConvNet(n_classes, image_size=self.problem.image_size, width=self.config.helper_width)
        return net.to(self.pixel_mean).to(memory_format=torch.channels_last)

    # --- the step ------------------------------------------------------------------------------------------------

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        task = self.task = self.task or self.start_task()
        n_summary = self.memory.n_summary
        losses = super().observe(x, y)

        images = self.pixels(x)
        task.queue.append((images, y.tolist()))
        due = len(task.queue) == task.queue.maxlen and task.iteration % self.config.interval == 0
        if due and self.memory.n_summary == n_summary:  # not while the batch opens summary slots
            losses |= self.summarise(sorted(set(y.tolist())))
        losses |= self.train_helper(images, y.tolist())
        task.iteration += 1
        return losses

    def start_task(self) -> Task:
        """A new helper for the classes seen and those of the task; what earlier tasks left behind is frozen."""
        until_now = sum(self.problem.task_sizes[: self.tasks_done + 1])
        past_slots = [slot for c in self.seen for slot in self.memory.summary_slots(c)]
        return Task(self.config, self.helper(max(until_now, len(self.seen))), list(self.seen), past_slots)

    def summarise(self, classes: list[int]) -> Losses:
        """One event: for each class in turn, one step on Z; only the class's own slots are then rewritten.

        Under a shuffled stream a class enters Z at the first event after its last summary slot has opened.
        """
        assert self.task is not None
        task, c = self.task, self.config
        for new in self.seen:
            if new not in task.past and new not in task.summaries.rows and self.memory.is_complete(new):
                task.summaries.append(new, self.pixels(self.memory.at(torch.tensor(self.memory.summary_slots(new)))[0]))
        classes = [label for label in classes if label in task.summaries.rows]
        losses = []
        for label, real in zip(classes, task.real(classes), strict=True):
            syn = task.summaries.of(label).detach().requires_grad_()
            both = self.match_view(torch.cat([real, syn]), self.draws)
            loss = matching_loss(
                both[len(real) :],
                both[: len(real)],
                self.past_summaries(),
                self.seen.index(label),
                task.helper,
                match=c.match,
                mem_weight=c.mem_weight,
                mem_extra=c.mem_extra,
                metric=c.metric,
            )
            task.summaries.step(label, torch.autograd.grad(loss, syn)[0])
            self.memory.rewrite(label, task.summaries.of(label))
            losses.append(loss.detach())
        return {"match": torch.stack(losses).mean()} if losses else {}

    def past_summaries(self) -> Tensor | None:
        """Some summaries of past tasks, without augmentation; None in the first task."""
        assert self.task is not None
        if not self.task.past_slots:
            return None
        slots = self.draws.pick("relation", self.task.past_slots, self.config.mem_sim_num)
        return self.pixels(self.memory.at(slots)[0])

    def train_helper(self, images: Tensor, labels: list[int]) -> Losses:
        """Cross-entropy on the batch and a few real images of the memory, in whole chunks; what is left is dropped."""
        assert self.task is not None
        n = self.config.helper_batch
        slots = self.draws.pick("helper.replay", self.memory.real_slots(), n)
        images = torch.cat([images, self.pixels(self.memory.at(slots)[0])])
        arrivals = torch.tensor([self.seen.index(c) for c in labels + self.memory.label_list(slots)])
        order = self.draws.permutation("helper.order", len(images))
        losses = []
        for chunk in torch.split(order, n)[: len(order) // n]:
            x = images[chunk.to(self.device, non_blocking=True)]
            loss = F.cross_entropy(self.task.helper(x), arrivals[chunk].to(self.device, non_blocking=True))
            self.task.optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            self.task.optimizer.step()
            losses.append(loss.detach())
        return {"helper": torch.stack(losses).mean()} if losses else {}

    def end_task(self) -> None:
        super().end_task()
        self.task = None

    def set_extra_state(self, state: dict[str, Any]) -> None:
        super().set_extra_state(state)
        self.task = None
