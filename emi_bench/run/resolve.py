"""What a user asked for -> RunSpec: names, values and what follows from them, checked before any work."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from emi_bench.data import DataInfo, get_info
from emi_bench.data.catalogue import BUILT_IN
from emi_bench.data.tasks import checked_groups
from emi_bench.errors import UserError
from emi_bench.facts import facts_of
from emi_bench.methods import Method, MethodConfig, get_method, plugin_file
from emi_bench.nets import Encoder
from emi_bench.nets.backbones import check_backbone
from emi_bench.problem import MOST_MEMORY, REDUCED_RESNET18, Problem
from emi_bench.run.spec import MODERN, Anytime, Protocol, RunSpec, check_keys
from emi_bench.seeds import LAST_SEED


def make_problem(info: DataInfo, memory: int, protocol: Protocol) -> Problem:
    """The experiment's shape, as a method is told it."""
    assert protocol.n_tasks is not None
    info = protocol.reduction.of(info)
    return Problem(
        dataset=info.name,
        n_classes=info.n_classes,
        n_tasks=protocol.n_tasks,
        task_sizes=tuple(map(len, protocol.groups or ())),
        image_size=info.image_size,
        memory=memory,
        batch=protocol.batch,
        replay_batch=protocol.replay_batch,
        width=protocol.width,
        backbone=protocol.backbone,
        reservoir=protocol.reservoir,
        mean=info.mean,
        std=info.std,
    )


def resolve(
    method: str,
    dataset: str,
    *,
    memory: int = 0,
    seed: int = 0,
    config: Mapping[str, Any] | None = None,
    protocol: Mapping[str, Any] | None = None,
    variant: str = "",
    features: bool = False,
    root: Path | None = None,
) -> RunSpec:
    """Check what a user asked for and fill in everything that follows from it."""
    cls = get_method(method)
    info = get_info(dataset, root)
    settings = check_keys(Protocol, protocol or {}, "protocol")
    by_preset: frozenset[str] = frozenset()
    if settings.preset == "modern":
        asked = {*(config or {}), *(f"protocol.{k}" for k in protocol or {})}
        settings = check_keys(Protocol, MODERN | dict(protocol or {}), "protocol")
        config = cls.config_class.under_modern(config or {})
        by_preset = frozenset({*config, *(f"protocol.{k}" for k in MODERN)} - asked)
    watched = settings.anytime if cls.learns_in_steps and not cls.joint else None
    if settings.stream == "clear":
        settings = settings.model_copy(update={"blur": Protocol().blur})  # it would change nothing
    settings = settings.model_copy(update={"anytime": None})  # how a run is watched is no part of what it is
    settings.reduction.check(info)
    settings = settings.model_copy(update=check_tasks(info, settings) | _whole(info, settings))
    backbone = check_backbone(settings.backbone, settings.reduction.of(info).image_size)
    if backbone.fixed_width:
        settings = settings.model_copy(update={"width": _fixed_width(protocol or {}, backbone)})
    memory = check_memory(cls, settings.reduction.of(info), memory)
    if seed < 0:
        raise UserError(f"seed {seed} is negative", hint="seeds are 0, 1, 2 ...")
    if seed > LAST_SEED:
        raise UserError(f"seed {seed} is too large", hint=f"the last one is {LAST_SEED}")
    problem = make_problem(info, memory, settings)
    resolved = check_keys(cls.config_class, config or {}, f"config of {method}").resolve(problem)
    default = cls.config_class().resolve(replace(problem, backbone=REDUCED_RESNET18))  # it fits every default
    if settings.stream == "blurry":
        check_blurry(cls, resolved)
    cost, train_every = _afforded(cls, resolved, problem, info, settings)
    constants, usual = resolved.model_dump(mode="json"), default.model_dump(mode="json")
    plugin = _plugin(cls, backbone)
    return RunSpec(
        method=method,
        method_version=cls.version,
        config=constants,
        dataset=info.name,
        data_fingerprint=None if dataset in BUILT_IN else info.fingerprint,
        memory=memory,
        seed=seed,
        protocol=settings,
        train_every=train_every,
        cost=cost,
        code_sha256=hashlib.sha256(Path(plugin).read_bytes()).hexdigest() if plugin else None,
        variant=variant,
        features=features,
        anytime=watched and _sized(watched, info),
        source=_source(dataset) if info.own else "",
        changed=_protocol_changes(settings, info) | _changes(cls.config_class, problem, constants, usual),
        by_preset=by_preset,
        left_out=_left_out(cls.config_class, constants, usual),
        facts=facts_of(cls),
        plugin=plugin or "",
    )


def check_blurry(cls: type[Method], config: MethodConfig) -> None:
    """A blurry stream tells nobody where tasks end."""
    reviews = getattr(config, "review", False)
    if cls.uses_task_ends or reviews:
        what = "its review" if reviews and not cls.uses_task_ends else cls.name
        raise UserError(
            f"{what} needs to know where a task ends, and a blurry stream does not say",
            hint="use protocol.stream=clear, or a method that needs no task ends (er, mir, scr, ...)",
        )


def _afforded(
    cls: type[Method], config: MethodConfig, problem: Problem, info: DataInfo, protocol: Protocol
) -> tuple[float | None, int]:
    """What a batch costs the method in steps of ER, task ends spread over the stream, and how many batches that is of
    the budget. Offline has no stream to keep up with."""
    if protocol.budget is None or cls.joint:
        return None, 1
    n_train = protocol.reduction.of(info).n_train
    seen = [n_train * n // problem.n_classes for n in itertools.accumulate(problem.task_sizes)]
    ends = sum(cls.end_forwards(config, problem, n) for n in seen) * problem.batch / n_train
    cost = (cls.forwards(config, problem) + ends) / (3.0 * (problem.batch + problem.replay_batch))
    return round(cost, 6), max(1, math.ceil(cost / protocol.budget - 1e-9))


def _fixed_width(protocol: Mapping[str, Any], backbone: type[Encoder]) -> int:
    """One run has one id: a width that changes nothing is the default, and may not be asked for."""
    default = Protocol().width
    if protocol.get("width", default) != default:
        raise UserError(f"the backbone {backbone.name} has a width of its own", hint="leave protocol.width away")
    return default


def _plugin(cls: type[Method], backbone: type[Encoder]) -> str | None:
    files = {file for file in (plugin_file(cls), plugin_file(backbone)) if file}
    if len(files) > 1:
        raise UserError(
            f"{cls.name} and the backbone {backbone.name} come from two files: {', '.join(sorted(files))}",
            hint="put them into one: its content is part of a run's id",
        )
    return next(iter(files), None)


def _protocol_changes(protocol: Protocol, info: DataInfo) -> dict[str, Any]:
    default = Protocol(n_tasks=info.n_tasks).model_dump(mode="json")
    if protocol.tasks is not None:
        default["n_tasks"] = protocol.n_tasks  # it follows
    stated = protocol.model_dump(mode="json")
    return {f"protocol.{k}": v for k, v in stated.items() if v != default[k] and k != "preset"}  # what it stands for


def _changes(
    model: type[MethodConfig], problem: Problem, constants: dict[str, Any], usual: dict[str, Any]
) -> dict[str, Any]:
    """The fewest constants that make the method what it is here: what follows from others is left out."""
    found = {k: v for k, v in constants.items() if v != usual[k] and k not in model.cosmetic}
    cosmetic = {k: constants[k] for k in model.cosmetic}
    for key in list(found) if len(found) > 1 else ():
        fewer = {k: v for k, v in found.items() if k != key}
        with contextlib.suppress(ValidationError, UserError):
            if model(**fewer, **cosmetic).resolve(problem).model_dump(mode="json") == constants:
                found = fewer
    return found


def _sized(asked: Anytime, info: DataInfo) -> Anytime:
    return asked.model_copy(update={"per_class": asked.per_class or max(1, min(100, 2000 // info.n_classes))})


def _left_out(model: type[MethodConfig], constants: dict[str, Any], usual: dict[str, Any]) -> frozenset[str]:
    return model.cosmetic | {k for k in model.younger() if constants[k] == usual[k]}


def _whole(info: DataInfo, protocol: Protocol) -> dict[str, None]:
    """The fields that ask for all there is, as if they had not been given: one run has one id."""
    asked = {
        "image_size": protocol.image_size == info.image_size,
        "train_per_class": protocol.train_per_class == info.n_train / info.n_classes and info.name in BUILT_IN,
        "test_per_class": protocol.test_per_class == info.n_test / info.n_classes and info.name in BUILT_IN,
    }
    return {key: None for key, whole in asked.items() if whole}


def _source(dataset: str) -> str:
    """A user's own data by its absolute path: a run may start in another folder."""
    kind, _, path = dataset.partition(":")
    return f"{kind}:{Path(path).expanduser().absolute()}"


def check_tasks(info: DataInfo, protocol: Protocol, words: str = "--set protocol.n_tasks=N") -> dict[str, Any]:
    """`n_tasks`, and `tasks` in its one form where they are spelled out; `words` is how the user says a number."""
    if protocol.groups is not None:
        return {"n_tasks": len(protocol.groups), "tasks": _check_groups(info, protocol)}
    n = protocol.n_tasks or info.n_tasks
    divisors = [t for t in range(1, info.n_classes + 1) if info.n_classes % t == 0]
    hint = f"{info.n_classes} classes can be split into {', '.join(map(str, divisors))} tasks: {words}"
    if n is None:
        raise UserError(f"{info.name} does not say into how many tasks it is split", hint=hint)
    if n not in divisors:
        raise UserError(f"{info.n_classes} classes of {info.name} do not split into {n} equal tasks", hint=hint)
    return {"n_tasks": n}


def _check_groups(info: DataInfo, protocol: Protocol) -> str:
    assert protocol.groups is not None
    if protocol.n_tasks not in (None, len(protocol.groups)):
        raise UserError(
            f"n_tasks is {protocol.n_tasks}, but tasks has {len(protocol.groups)}", hint="leave n_tasks away"
        )
    if protocol.class_order != "seed":
        hint = "leave class_order away: these tasks come in their own order, for every seed"
        raise UserError("tasks and class_order both say in which order classes come", hint=hint)
    return json.dumps(checked_groups(info, protocol.groups), ensure_ascii=False)


def check_memory(cls: type[Method], info: DataInfo, memory: int, words: str = "--memory {}") -> int:
    """The size of the memory, 0 for a method without one; `words` is how the user says it."""
    if memory < 0:
        raise UserError(f"memory {memory} is negative", hint=f"{words.format('N')} is the number of images to keep")
    if memory > MOST_MEMORY:
        raise UserError(f"memory {memory} is too large", hint=f"the most is {words.format(MOST_MEMORY)}")
    if not cls.uses_memory:
        return 0
    if memory == 0:
        raise UserError(
            f"{cls.name} needs a memory", hint=f"give it one: {words.format(20 * info.n_classes)}, for example"
        )
    if memory < info.n_classes:
        raise UserError(
            f"memory {memory} is smaller than the {info.n_classes} classes of {info.name}",
            hint="a class without a single stored image cannot be replayed: "
            f"use {words.format(info.n_classes)} or more",
        )
    return memory
