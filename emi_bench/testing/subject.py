"""A method under examination: short runs of it, step by step or whole, each done once for several checks."""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from emi_bench.data import load
from emi_bench.data.stream import Stream
from emi_bench.methods import Method, get_method
from emi_bench.run.checkpoint import Checkpoint
from emi_bench.run.loop import build_method, phases, run
from emi_bench.run.resolve import resolve
from emi_bench.run.result import RunResult
from emi_bench.run.spec import RunSpec
from emi_bench.testing import data as names
from emi_bench.testing.failure import CheckFailed, NotRun, SourceFile
from emi_bench.testing.reachable import CLOSED, PLAIN, images_within, same

T = TypeVar("T")
SMALL = {"width": 4, "batch": names.BATCH, "replay_batch": 8, "class_order": "natural"}
#: The walks: data set -> memory slots, words for what is special about it.
WALKS = {
    names.PLAIN: (12, "a plain stream"),
    names.SHORT: (4, "a memory smaller than a batch, and a last batch of one image"),
    names.LONELY: (12, "tasks of one class"),
}


@dataclass
class Walk:
    """What was noticed on the way through a stream: the first failure of each kind."""

    found: dict[str, CheckFailed] = field(default_factory=dict)

    def note(self, kind: str, message: str, where: str) -> None:
        self.found.setdefault(kind, CheckFailed(message, where))


@dataclass
class Finished:
    """A whole run: its result, the method's state at its end; its checkpoints as a file holds them, where kept."""

    result: RunResult
    learned: dict[str, Any]
    files: list[bytes]

    @property
    def earlier(self) -> Iterator[Checkpoint]:
        """The checkpoints before the last, one after another."""
        return map(Checkpoint.decode, self.files[:-1])


class Subject:
    """One method; `config` changes constants that would make it slow."""

    def __init__(self, name: str, config: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self.cls: type[Method] = get_method(name)
        self.config = dict(config or {})
        self.source = SourceFile(self.cls)
        self._kept: dict[str, Any] = {}

    def spec(self, dataset: str, *, memory: int = 12, seed: int = 0, **protocol: Any) -> RunSpec:
        return resolve(self.name, dataset, memory=memory, seed=seed, config=self.config, protocol=SMALL | protocol)

    def build(self, spec: RunSpec) -> Method:
        return build_method(spec, load(spec.dataset).info, "cpu")

    def once(self, key: str, make: Callable[[], T]) -> T:
        """The result of `make`, made once. Whoever asks for it after it has failed is told that nothing can be said."""
        if key not in self._kept:
            try:
                self._kept[key] = make()
            except CheckFailed as e:
                self._kept[key] = e
                raise
        elif isinstance(self._kept[key], CheckFailed):
            raise NotRun("it fails before")
        kept: T = self._kept[key]
        return kept

    def walk(self, dataset: str) -> Walk:
        """Through a stream step by step, with a look at everything after each."""
        return self.once(dataset, lambda: _walked(self, dataset))

    def walks(self) -> list[Walk]:
        """All of them that went through."""
        for dataset in WALKS:
            try:
                self.walk(dataset)
            except (CheckFailed, NotRun):
                if dataset == names.PLAIN:
                    raise NotRun("it fails before") from None
        return [kept for kept in self._kept.values() if isinstance(kept, Walk)]

    def run(
        self, spec: RunSpec, words: str, noise: int = 0, resume: Checkpoint | None = None, keep: bool = False
    ) -> Finished:
        """A run from its beginning or a checkpoint; `noise` seeds the global generators, which must not matter. With
        `keep` its checkpoints are kept too.
        """
        files: list[bytes] = []
        learned: dict[str, Any] = {}

        def note(checkpoint: Checkpoint) -> None:
            if keep:
                files.append(checkpoint.encode())
            learned.clear()
            learned.update(copy.deepcopy(checkpoint.method))  # whatever later runs do to what they share with this one

        random.seed(noise)
        np.random.seed(noise)  # noqa: NPY002
        with torch.random.fork_rng(devices=[]), self.source.blamed(words):
            torch.manual_seed(noise)
            result = run(spec, load(spec.dataset), resume=resume, on_checkpoint=note)
        return Finished(result, learned, files)

    def finished(self) -> Finished:
        """The undisturbed run that repetitions, other seeds and resumed runs are compared with."""
        return self.once("finished", lambda: self.run(self.spec(names.LONELY), "a whole run fails", keep=True))


def _walked(subject: Subject, dataset: str) -> Walk:
    memory, words = WALKS[dataset]
    source, walk = subject.source, Walk()
    last = "keep" if dataset == names.SHORT else "merge"
    spec, data = subject.spec(dataset, memory=memory, last_batch=last), load(dataset)
    with source.blamed("it cannot be built"):
        method = subject.build(spec)
    stream = Stream.of(data, spec.n_tasks, spec.seed, spec.protocol.class_order)
    known = _known_images(method, data.x_train)
    for number, phase in enumerate(phases(method, stream, spec.protocol.batch, spec.protocol.last_batch), 1):
        for x, y in stream.batches(phase.indices, phase.batch, phase.last):
            given_x, given_y = x.clone(), y.clone()
            with source.blamed(f"observe fails with {words}, in task {number}, a batch of {len(x)}"):
                losses = method.observe(x, y)
            if not (same(x, given_x) and same(y, given_y)):
                walk.note("input", "observe changes the batch it is given", _writes(source))
            _look_at_losses(walk, source, losses)
            _look_at_memory(walk, source, method)
        if not method.queues_stream:
            _look_for_samples(walk, source, method, known, given_x)
        if phase.ends_task:
            with source.blamed(f"end_task fails with {words}, after task {number}"):
                method.end_task()
            _look_for_samples(walk, source, method, known, given_x)
            _look_at_predictions(walk, source, method, data.x_test)
    return walk


def _writes(source: SourceFile) -> str:
    """The first in-place call on x or y, else where `observe` begins."""
    calls = [(name, where) for name, where in source.calls("x.", "y.") if name.endswith("_")]
    return calls[0][1] if calls else source.function("observe")


def _look_at_losses(walk: Walk, source: SourceFile, losses: Any) -> None:
    where = source.function("observe")
    if not isinstance(losses, dict):
        walk.note("losses", f"observe returns {_kind(losses)}, not a dict of loss terms", where)
        return
    for name, value in losses.items():
        if not isinstance(name, str) or not isinstance(value, Tensor) or value.dim() != 0:
            told = f"observe returns {{{name!r}: {_kind(value)}}}, not a name and a 0-d tensor"
            walk.note("losses", told, where)
        elif value.requires_grad:
            walk.note("losses", f"the loss term '{name}' is not detached: every step's graph would be kept", where)
        elif not torch.isfinite(value):
            walk.note("finite", f"the loss term '{name}' is {value.item()}", where)


def _look_at_memory(walk: Walk, source: SourceFile, method: Method) -> None:
    limit = method.problem.memory if method.uses_memory else 0
    slots, held = method.memory.images.shape[0], len(method.memory)
    if max(slots, held, method.memory.size) > limit:
        told = f"the memory has {max(slots, held, method.memory.size)} slots, and {limit} are allowed"
        walk.note("memory", told, source.function("make_memory"))


def _known_images(method: Method, x: Tensor) -> dict[bytes, int]:
    """The stream's images by their bytes, as they come and as the network reads them."""
    known: dict[bytes, int] = {}
    for form in (x, x.float(), x.float() / 255, method.pixels(x)):
        for images in (form, form.permute(0, 2, 3, 1)):
            known |= {image.contiguous().numpy().tobytes(): i for i, image in enumerate(images)}
    return known


def _look_for_samples(walk: Walk, source: SourceFile, method: Method, known: dict[bytes, int], x: Tensor) -> None:
    pixels = x[0].numel()
    found = images_within(method, "self", known, pixels)
    for path, value in _shared(type(method)):
        if not isinstance(value, (*PLAIN, *CLOSED)):
            found = images_within(value, path, known, pixels) | found
    now = images_within([x], "x", known, pixels)
    kept = {i: path for i, path in found.items() if i not in now}
    outside = {i: path for i, path in kept.items() if not path.startswith("self.memory.")}
    limit = method.problem.memory if method.uses_memory else 0
    if outside and len(kept) > limit:
        path = next(iter(outside.values()))
        told = f"{len(outside)} images of the stream are kept in {path.partition('[')[0]}, outside the memory"
        walk.note("kept", f"{told}, {len(kept)} in all where {limit} are allowed", source.attribute(path))


def _shared(cls: type[Method]) -> Iterator[tuple[str, Any]]:
    """What all objects of a class share: names of the classes it is made of, and of the files these are written in."""
    classes = [c for c in cls.__mro__ if issubclass(c, Method)]
    for module in {c.__module__: sys.modules[c.__module__] for c in classes}.values():
        inside = [c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__]
        classes += [c for c in inside if c not in classes]
        yield from ((name, value) for name, value in vars(module).items() if not name.startswith("__"))
    for c in classes:
        yield from ((f"{c.__name__}.{name}", value) for name, value in vars(c).items() if not name.startswith("__"))


def _look_at_predictions(walk: Walk, source: SourceFile, method: Method, x: Tensor) -> None:
    where, given = source.function("predict"), x.clone()
    before = method.state_dict()
    before = {k: v.clone() if isinstance(v, Tensor) else v for k, v in before.items()}
    with source.blamed("predict fails"):
        predicted: Any = method.predict(x)
    n_classes = method.problem.n_classes
    if not isinstance(predicted, Tensor):
        walk.note("predictions", f"predict returns {_kind(predicted)}, not a tensor of class ids", where)
    elif predicted.shape != (len(x),):
        told = f"predict returns a tensor of shape {tuple(predicted.shape)} for {len(x)} images, not ({len(x)},)"
        walk.note("predictions", told, where)
    elif predicted.dtype != torch.int64:
        walk.note("predictions", f"predict returns {predicted.dtype}, class ids are torch.int64", where)
    elif not 0 <= predicted.min() <= predicted.max() < n_classes:
        told = f"predict returns classes {predicted.min()} to {predicted.max()}, there are 0 to {n_classes - 1}"
        walk.note("predictions", told, where)
    if not method.training:
        walk.note("predictions", "predict leaves the method in eval mode: use `with self.evaluating()`", where)
    if not same(x, given):
        walk.note("input", "predict changes the images it is given", where)
    after = method.state_dict()
    changed = [key for key in before if not same(before[key], after[key])]
    if changed:
        walk.note("predictions", f"predict changes what was learned ({changed[0]}): it may only look", where)


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return "None" if value is None else f"{type(value).__name__} {repr(value)[:40]}"
