"""The battery: what every method promises, whoever wrote it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch

from emi_bench.data import load
from emi_bench.data.stream import Stream
from emi_bench.methods import Method
from emi_bench.metrics import average_accuracy
from emi_bench.run.checkpoint import Checkpoint, State
from emi_bench.run.loop import build_method, phases
from emi_bench.testing import data as names
from emi_bench.testing.apart import apart
from emi_bench.testing.failure import CheckFailed, NotRun
from emi_bench.testing.reachable import differences, same
from emi_bench.testing.subject import Finished, Subject
from emi_bench.testing.syncs import Syncs

CHANCE, LEARNED = 0.25, 0.35  #: average accuracy on four digits, in two tasks


@dataclass(frozen=True)
class Check:
    """`run` raises a `CheckFailed` where the sentence is not true of a method."""

    name: str
    sentence: str
    run: Callable[[Subject], None]
    needs: frozenset[str] = frozenset()  #: checks without which it would only say the same again


def signatures(subject: Subject) -> None:
    for name in ("observe", "end_task", "predict"):
        given = ["x", "y"] if name == "observe" else ["x"] if name == "predict" else []
        try:
            inspect.signature(getattr(subject.cls, name)).bind("self", *given)
        except TypeError as e:
            told = f"{name}{inspect.signature(getattr(subject.cls, name))} cannot be called as "
            raise CheckFailed(f"{told}{name}({', '.join(given)}): {e}", subject.source.function(name)) from e
    if subject.cls.observe is Method.observe:
        raise CheckFailed("there is no observe(self, x, y), the training step", subject.source.function("observe"))


def documented(subject: Subject) -> None:
    config = subject.cls.config_class
    for key, field in config.model_fields.items():
        if not field.description:
            where = subject.source.attribute(key) if key in vars(config).get("__annotations__", {}) else ""
            raise CheckFailed(f"the constant '{key}' has no sentence: write a docstring under it", where)
    problem = subject.build(subject.spec(names.SHORT)).problem
    once = config().resolve(problem)
    if once != once.resolve(problem):
        raise CheckFailed(
            "a resolved config, resolved again, is another one", subject.source.attribute(config.__name__)
        )


def steps(subject: Subject) -> None:
    subject.walk(names.PLAIN)


def short_batch(subject: Subject) -> None:
    subject.walk(names.SHORT)


def lonely(subject: Subject) -> None:
    subject.walk(names.LONELY)


def noticed(kind: str) -> Callable[[Subject], None]:
    """A check of what was seen on the walks."""

    def check(subject: Subject) -> None:
        for walk in subject.walks():
            if kind in walk.found:
                raise walk.found[kind]

    return check


def never_waits(subject: Subject) -> None:
    spec = subject.spec(names.PLAIN)
    method = subject.build(spec)
    stream = Stream.of(load(spec.dataset), spec.n_tasks, spec.seed)
    first = phases(method, stream, spec.protocol.batch)[0]
    batches = list(islice(stream.batches(first.indices, first.batch), 2))
    every: set[str] | None = None
    for x, y in [*batches, *batches]:  # twice: with a memory that has something in it
        device = [x, *method.state_dict(keep_vars=True).values()]
        syncs = Syncs(subject.source, [t for t in device if isinstance(t, torch.Tensor)])
        with subject.source.blamed("observe fails under observation"), syncs.watching():
            method.observe(x, y)
        every = set(syncs.found) if every is None else every & set(syncs.found)
        called = syncs.found
    if every:
        where = min(every)
        told = f"every step waits for the device: {called[where]}"
        raise CheckFailed(f"{told}; keep tensors, and look at them at the end of a task", where)


def learns(subject: Subject) -> None:
    spec = subject.spec(names.LEARN, memory=40, seed=1, width=8, batch=4, replay_batch=16, class_order="seed")
    reached = average_accuracy(subject.run(spec, "a run on digits fails").result.matrix)
    if reached <= LEARNED:
        told = f"it learns nothing: average accuracy {reached:.2f} on four digits, chance is {CHANCE}"
        raise CheckFailed(f"{told}, {LEARNED} is asked for", subject.source.function("observe"))


def repeats(subject: Subject) -> None:
    first = subject.finished()
    again = subject.run(subject.spec(names.LONELY), "the second run of a process fails", noise=1)
    if equal(first, again):
        return
    suspects = subject.source.calls("torch.rand", "np.random", "numpy.random", "random.", "time.")
    told = "two runs of one seed differ; every random choice is asked of self.draws"
    if suspects:
        raise CheckFailed(f"{told}, not of {suspects[0][0]}()", suspects[0][1])
    hint = f"{told}. Dropout, state of the class or the file, and sets can be behind it"
    raise CheckFailed(hint, subject.source.function("observe"))


def equal(a: Finished, b: Finished) -> bool:
    """Matrix, losses and all that was learned, bit for bit."""
    matrices = np.array_equal(a.result.matrix, b.result.matrix, equal_nan=True)
    return matrices and a.result.losses == b.result.losses and same(a.learned, b.learned)


def seeds(subject: Subject) -> None:
    """With the classes in their natural order: it is the stream, the weights and the choices that differ."""
    first = subject.finished().learned
    other = subject.run(subject.spec(names.LONELY, seed=1), "a run of another seed fails").learned
    weights = [key for key, _ in subject.build(subject.spec(names.LONELY)).named_parameters()]
    if all(same(first[key], other[key]) for key in weights):
        told = "two seeds give the same weights: something is seeded by a constant"
        raise CheckFailed(told, subject.source.function("make_net"))


def resumes(subject: Subject) -> None:
    whole, spec = subject.finished(), subject.spec(names.LONELY)
    for checkpoint in whole.earlier:
        words = "a run cannot go on from its checkpoint"
        if not equal(whole, subject.run(spec, words, resume=checkpoint)):
            raise _forgotten(subject)


def _forgotten(subject: Subject) -> CheckFailed:
    """Which attributes a checkpoint does not bring back, after the first task."""
    spec = subject.spec(names.LONELY)
    info = load(spec.dataset).info
    stream = Stream.of(load(spec.dataset), spec.n_tasks, spec.seed, spec.protocol.class_order)
    method, twin = (build_method(spec, info, "cpu") for _ in range(2))
    first = phases(method, stream, spec.protocol.batch)[0]
    for x, y in stream.batches(first.indices, first.batch, first.last):
        method.observe(x, y)
    if first.ends_task:
        method.end_task()
    kept = Checkpoint(spec.run_id, 1, method.state_dict(), State()).encode()
    twin.load_state_dict(Checkpoint.decode(kept).method)
    paths = list(dict.fromkeys(path.partition("[")[0] for path in differences(method, twin)))
    told = "a run that goes on from a checkpoint is not the one that was never interrupted"
    if not paths:
        told += ": state that is no attribute (of the class or the file) is not in the checkpoint"
        return CheckFailed(told, subject.source.function("observe"))
    told += f": {', '.join(paths[:5])} {'is' if len(paths) == 1 else 'are'} not in it"
    return CheckFailed(f"{told}; add to get_extra_state and set_extra_state", subject.source.attribute(paths[0]))


def bf16(subject: Subject) -> None:
    def work() -> None:
        result = subject.run(subject.spec(names.SHORT, precision="bf16"), "it breaks in bf16").result
        if not np.isfinite(result.matrix[-1]).all():
            raise CheckFailed("the accuracy in bf16 is not a number", subject.source.function("predict"))

    apart(work)  # not every processor that says it can does


def cuda(subject: Subject) -> None:
    if not torch.cuda.is_available():
        raise NotRun("no CUDA device")
    from emi_bench.run.loop import run

    spec = subject.spec(names.SHORT, width=8)
    with subject.source.blamed("it breaks on a GPU"):
        run(spec, load(spec.dataset), device="cuda")


#: What a method must not fail for its whole runs to say anything.
CALLABLE = frozenset({"signatures"})
SOUND = CALLABLE | {"steps", "losses", "finite", "predictions"}

CHECKS = [
    Check("signatures", "It can be called as the loop calls it.", signatures),
    Check("documented", "Every constant has a sentence, and resolving is final.", documented),
    Check("steps", "It goes through three tasks step by step.", steps, CALLABLE),
    Check("short batch", "It survives a last batch of one image, and a very small memory.", short_batch, CALLABLE),
    Check("one class", "It survives tasks of one class.", lonely, CALLABLE),
    Check("losses", "observe returns loss terms: names and detached 0-d tensors.", noticed("losses"), CALLABLE),
    Check("finite", "No loss is NaN or infinite.", noticed("finite"), CALLABLE),
    Check(
        "predictions", "predict gives int64 classes, one an image, and only looks.", noticed("predictions"), CALLABLE
    ),
    Check("input", "Batches are left as they were given.", noticed("input"), CALLABLE),
    Check("memory", "The memory never has more slots than are allowed.", noticed("memory"), CALLABLE),
    Check("kept samples", "No image of the stream is kept outside the memory.", noticed("kept"), CALLABLE),
    Check("waiting", "No step waits for the device.", never_waits, CALLABLE),
    Check("repeats", "The same seed gives the same run, bit for bit.", repeats, SOUND | {"one class"}),
    Check("seeds", "Another seed learns something else.", seeds, SOUND | {"one class"}),
    Check(
        "resumes",
        "From any checkpoint it ends as an undisturbed run, bit for bit.",
        resumes,
        SOUND | {"one class", "repeats"},
    ),
    Check("bf16", "It runs in bfloat16.", bf16, SOUND | {"short batch"}),
    Check("cuda", "It runs on a GPU.", cuda, SOUND | {"short batch"}),
    Check("learns", "It learns digits above chance.", learns, SOUND),
]
