"""What a method is: a network, a memory and one readable step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Literal, Self, TypeAlias, cast

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from emi_bench.draws import Draws
from emi_bench.facts import Role
from emi_bench.memory import Memory
from emi_bench.nets import Encoder, Net
from emi_bench.nets.backbones import make_encoder
from emi_bench.nets.layout import layout_for, layout_of
from emi_bench.nets.optimizers import SGD, Adam, AdamW
from emi_bench.nets.weights import seeded_weights
from emi_bench.problem import Problem

#: A stochastic view of a batch of images in network units: (n,3,H,W) -> (n,3,H,W).
View: TypeAlias = Callable[[Tensor, Draws], Tensor]
Losses: TypeAlias = dict[str, Tensor]


class EMA(BaseModel):
    """Constants of weight averaging (`methods/ema.py`)."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    momentum: float = Field(0.99, ge=0, lt=1)
    """Share of the average that a step keeps: half of it is older than 69 steps at 0.99 (the authors' value)."""


class MethodConfig(BaseModel):
    """Constants that every method has. The defaults are those of the replay family (SGD 0.1, pixels in 0-1, 4x4 pool).

    A field whose value depends on the data set is None until `resolve` fills it in; a resolved config is part of the
    run's identity. A subclass documents each field it adds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    """The source's own optimiser."""
    lr: float = Field(0.1, gt=0)
    """Learning rate, constant over the stream."""
    momentum: float = Field(0.0, ge=0, lt=1)
    """Momentum of SGD."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of Adam and AdamW (torch's own, as in the reference framework). Unused with SGD."""
    weight_decay: float = Field(0.0, ge=0)
    """L2 inside the optimiser; with AdamW apart from the gradient."""
    normalize: bool = False
    """Whether pixels in 0-1 are further brought to zero mean and unit variance."""
    mean: tuple[float, float, float] | None = None
    """Pixel mean; the data set's unless given. Unused without `normalize`."""
    std: tuple[float, float, float] | None = None
    """Pixel standard deviation; the data set's unless given."""
    pooling: Literal["avg4", "global"] | None = None
    """Pooling of the encoder: the replay family's 4x4 average pool; global for images under 32 pixels."""
    ema: EMA | None = None
    """Evaluate by averaged weights, `{momentum: 0.99}`, or by the weights as they are. Training is the same."""

    family_pooling: ClassVar[Literal["avg4", "global"]] = "avg4"
    cosmetic: ClassVar[frozenset[str]] = frozenset()  #: fields that cannot change a result, so not part of a run's id
    added: ClassVar[frozenset[str]] = frozenset({"ema"})
    """This class's fields younger than its first release: part of a run's id only where not at their default."""

    @classmethod
    def younger(cls) -> frozenset[str]:
        """`added` of this class and all that it inherits from, each of which names its own."""
        return frozenset().union(*(vars(c).get("added", ()) for c in cls.__mro__))

    @classmethod
    def modern(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Constants under `protocol: {preset: modern}` for what is given, where they differ from the defaults."""
        return {"optimizer": "adamw", "lr": 5e-4, "weight_decay": 1e-4, "normalize": False}

    @classmethod
    def under_modern(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """The same with what is given, which goes before."""
        return cls.modern(given) | dict(given)

    def resolve(self, problem: Problem) -> Self:
        """The config with every data-set dependent value filled in. Subclasses extend it."""
        pooling = self.pooling or ("global" if problem.image_size < 32 else self.family_pooling)
        zero, one = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
        mean, std = (self.mean or problem.mean, self.std or problem.std) if self.normalize else (zero, one)
        return self.model_copy(update={"pooling": pooling, "mean": mean, "std": std})


class Method(nn.Module):
    """One online learner. A subclass writes `observe`; the loop calls `observe`, `end_task`, `predictions` (that is
    `predict`, unless a method has several), nothing else; `embed` after the last task, where features are asked for.

    The network, the memory, the view and the source of random choices are given, so that a test can inject toy ones;
    `build` makes the usual ones. Whatever a run needs to go on is in `state_dict()`: networks, memory, optimiser, the
    state of the draws, the classes seen.
    """

    name: ClassVar[str]
    # Facts for tables and figures, plain values stated by each class itself: see `emi_bench.facts.Facts`.
    title: ClassVar[str]
    cite: ClassVar[str] = ""
    bibtex: ClassVar[str] = ""
    place: ClassVar[int | None] = None
    role: ClassVar[Role] = "baseline"
    colour: ClassVar[str] = ""
    marker: ClassVar[str] = ""
    line: ClassVar[str] = "-"
    uses_memory: ClassVar[bool] = True
    # What the loop, the identity and the plan go by.
    version: ClassVar[int] = 1  #: raise it when results change: it is part of the run's identity
    uses_task_ends: ClassVar[bool] = False  #: whether training (not only evaluation) depends on where tasks end
    learns_in_steps: ClassVar[bool] = True  #: not so if steps only collect and a task's end trains (GDumb)
    queues_stream: ClassVar[bool] = False  #: holds images of the running task beside its memory, as its paper says
    joint: ClassVar[bool] = False  #: trains on all tasks together, several epochs (the offline bound)
    config_class: ClassVar[type[MethodConfig]] = MethodConfig

    pixel_mean: Tensor
    pixel_std: Tensor

    def __init__(
        self,
        config: MethodConfig,
        problem: Problem,
        *,
        net: nn.Module,
        memory: Memory,
        draws: Draws,
        view: View | None = None,
    ) -> None:
        super().__init__()
        self.config = config.resolve(problem)
        self.problem = problem
        self.net = net
        self.layout = layout_of(net)
        self.memory = memory
        self.draws = draws
        self.view = view or self.make_view(self.config, problem)
        self.tasks_done = 0
        self.seen: list[int] = []  # classes met so far, in the order of arrival
        dtype = next(net.parameters()).dtype
        self.register_buffer("pixel_mean", torch.tensor(self.config.mean, dtype=dtype).view(1, 3, 1, 1), False)
        self.register_buffer("pixel_std", torch.tensor(self.config.std, dtype=dtype).view(1, 3, 1, 1), False)
        self.optimizer = self.make_optimizer(net.parameters())

    # --- parts, for `build`; a subclass overrides what is its own ------------------------------------------------

    @classmethod
    def build(
        cls, config: MethodConfig, problem: Problem, *, weight_seed: int, draws: Draws, device: str = "cpu"
    ) -> Self:
        """The method with its own network, memory and view, as a run uses it."""
        config = config.resolve(problem)
        net = cls.built_net(config, problem, weight_seed, device)
        memory = cls.make_memory(config, problem).to(device)
        return cls(config, problem, net=net, memory=memory, draws=draws).to(device)

    @classmethod
    def built_net(cls, config: MethodConfig, problem: Problem, weight_seed: int, device: str) -> nn.Module:
        """The network with its initial weights, in its layout."""
        with seeded_weights(weight_seed):
            net = cls.make_net(config, problem)
        return net.to(device=device, memory_format=layout_for(net))  # type: ignore[call-overload, no-any-return]

    @classmethod
    def make_encoder(cls, config: MethodConfig, problem: Problem) -> Encoder:
        assert config.pooling is not None
        return make_encoder(problem.backbone, problem.width, image_size=problem.image_size, pooling=config.pooling)

    @classmethod
    def make_net(cls, config: MethodConfig, problem: Problem) -> nn.Module:
        return Net(cls.make_encoder(config, problem), problem.n_classes)

    @classmethod
    def make_memory(cls, config: MethodConfig, problem: Problem) -> Memory:
        size = problem.memory if cls.uses_memory else 0
        return Memory(size, problem.image_shape, reservoir=problem.reservoir)

    @classmethod
    def make_view(cls, config: MethodConfig, problem: Problem) -> View | None:
        return None

    @classmethod
    def forwards(cls, config: MethodConfig, problem: Problem) -> float:
        """What a step costs: images through the network, as forward passes (a backward counts two). Twice ER's, unless
        a method says better; plans and budgets go by it."""
        return 6.0 * (problem.batch + problem.replay_batch)

    @classmethod
    def end_forwards(cls, config: MethodConfig, problem: Problem, n_seen: int) -> float:
        """The same of the end of a task, when `n_seen` images of the stream have passed."""
        return 0.0

    @property
    def balanced_stream(self) -> bool:
        """Whether every batch of the stream holds equally many images of each class of the task (see `Stream`)."""
        return False

    def make_optimizer(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        c = self.config
        if c.optimizer != "sgd":
            adam = AdamW if c.optimizer == "adamw" else Adam
            return adam(parameters, lr=c.lr, betas=c.betas, weight_decay=c.weight_decay, foreach=True)
        return SGD(parameters, lr=c.lr, momentum=c.momentum, weight_decay=c.weight_decay, foreach=True)

    # --- what the loop calls -------------------------------------------------------------------------------------

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        """Learn from one stream batch: x (b,3,H,W) on the device, uint8 in a run; y (b,) int64 **on the host**.

        Labels come on the host so that class bookkeeping never waits for the device; `prepare` gives both in network
        units on the device. Returns the loss terms as 0-d tensors (detached, not synchronised).
        """
        raise NotImplementedError

    def end_task(self) -> None:
        """Called after the last batch of a task, before evaluation."""
        self.tasks_done += 1

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Class ids (n,) for images (n,3,H,W): argmax over all C logits in eval mode, unless a method differs."""
        with self.evaluating():
            return cast(Tensor, self.net(self.pixels(x))).argmax(1)

    def predictions(self, x: Tensor) -> dict[str, Tensor]:
        """Class ids by name: "" is `predict`, what the run is judged by; others are stored beside it."""
        return {"": self.predict(x)}

    @torch.no_grad()
    def embed(self, x: Tensor) -> Tensor:
        """Features (n,D) in eval mode, for the feature figures."""
        with self.evaluating():
            return cast(Net, self.net).features(self.pixels(x))

    # --- what steps are made of ----------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        return self.pixel_mean.device

    def pixels(self, x: Tensor) -> Tensor:
        """Images in network units: uint8 is scaled to 0-1, floats are taken to be there; then mean and std."""
        dtype = self.pixel_mean.dtype
        x = x.to(self.device, non_blocking=True)
        x = x.to(dtype).div_(255) if x.dtype == torch.uint8 else x.to(dtype)
        if self.config.normalize:
            x = (x - self.pixel_mean) / self.pixel_std
        return x.contiguous(memory_format=self.layout)

    def view_of(self, images: Tensor) -> Tensor:
        """The method's view of some images in network units; themselves where it has none."""
        return images if self.view is None else self.view(images, self.draws)

    def prepare(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """A stream batch in network units and its labels, both on the device; notes the classes."""
        self.note_classes(y)
        return self.pixels(x), y.to(self.device, non_blocking=True)

    def note_classes(self, y: Tensor) -> None:
        """Remember the classes of host labels y in the order of arrival."""
        self.seen += [c for c in dict.fromkeys(y.tolist()) if c not in self.seen]

    def replay(self, k: int | None = None) -> tuple[Tensor, Tensor]:
        """A random replay batch in network units (possibly empty), labels on the device."""
        x, y = self.memory.sample(self.problem.replay_batch if k is None else k, self.draws)
        return self.pixels(x), y

    def descend(self, loss: Tensor) -> None:
        """One optimiser step on a loss."""
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        self.optimizer.step()

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Eval mode inside, the former mode afterwards."""
        was = self.training
        self.eval()
        try:
            yield
        finally:
            self.train(was)

    # --- checkpoint ----------------------------------------------------------------------------------------------

    def get_extra_state(self) -> dict[str, Any]:
        kept = {"optimizer": self.optimizer.state_dict(), "draws": self.draws.state()}
        return kept | {"tasks_done": self.tasks_done, "seen": list(self.seen)}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state["optimizer"])
        self.draws.restore(state["draws"])
        self.tasks_done = state["tasks_done"]
        self.seen = list(state["seen"])
