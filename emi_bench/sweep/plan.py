"""Sweep -> cells: which runs there are, which are done, which are held, what is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from emi_bench.data import get_info
from emi_bench.data.own import find_own, is_own
from emi_bench.errors import UserError
from emi_bench.methods import get_method
from emi_bench.registry import did_you_mean
from emi_bench.run.resolve import check_memory, check_tasks, resolve
from emi_bench.run.spec import Protocol, RunSpec, check_keys
from emi_bench.store import Store
from emi_bench.store.leases import Claim
from emi_bench.store.store import side_paths
from emi_bench.sweep.asked import Asked
from emi_bench.sweep.check import read_sweep
from emi_bench.sweep.grammar import MOST_SEEDS, Resources, RunGroup, Sweep, YamlSource, placed

ONLY_KEYS = ("method", "variant", "dataset", "memory", "seed")


@dataclass(frozen=True)
class Cell:
    """One run of the sweep."""

    spec: RunSpec
    resources: Resources
    cell_id: str  #: `spec.cell_id`, hashed once for all seeds

    @property
    def run_id(self) -> str:
        return self.spec.run_id


@dataclass
class Plan:
    """The cells of a sweep, by what is to be done about them, each list in the order of the file."""

    cells: list[Cell]
    repeated: int = 0  #: cells that stand in the file more than once
    results: dict[str, str] = field(default_factory=dict)  #: all results of the store, by run_id
    done: list[Cell] = field(default_factory=list)
    held: list[tuple[Cell, Claim]] = field(default_factory=list)
    todo: list[Cell] = field(default_factory=list)


def expand(sweep: Sweep, source: YamlSource, root: Path | None = None) -> tuple[list[Cell], int]:
    """All cells, each once, in the order of the file; and how many were named more than once."""
    for s in range(len(sweep.settings)):
        _check_protocol(sweep, source, s, root)
    cells: dict[str, Cell] = {}
    default: dict[tuple[int, int, int], RunSpec] = {}  #: by setting, method and memory
    n = 0
    for part in sweep.parts():
        s, m = part.at
        resolved = partial(
            resolve,
            part.method,
            _absolute(part.dataset),
            protocol=part.protocol,
            features=sweep.features,
            root=root,
        )
        for memory in _memories(sweep, source, part, root):
            with placed(source, ["methods", m]):
                if (s, m, memory) not in default:
                    default[s, m, memory] = resolved(memory=memory)
                template = resolved(memory=memory, config=part.constants, variant=part.variant)
            if template.config == default[s, m, memory].config:
                template = default[s, m, memory]  # one name for one run, whichever sweep names it
            for seed in part.seeds:
                # not model_copy: it would carry a cached run_id along
                spec = RunSpec.model_construct(**(dict(template) | {"seed": seed}))
                cells.setdefault(spec.run_id, Cell(spec, part.resources, template.cell_id))
                n += 1
    return list(cells.values()), n - len(cells)


def _memories(sweep: Sweep, source: YamlSource, part: RunGroup, root: Path | None) -> list[int]:
    """The memory sizes of a part, as its method takes them: one for all where it has no memory."""
    s, cls = part.at[0], get_method(part.method)
    info = check_keys(Protocol, part.protocol, "protocol").reduction.of(get_info(part.dataset, root))
    listed = isinstance(source.content["settings"][s]["memory"], list)
    found = []
    for i, memory in enumerate(sweep.settings[s].memory):
        with placed(source, ["settings", s, "memory", *([i] if listed else [])]):
            found.append(check_memory(cls, info, memory, "`memory: {}`"))
    return list(dict.fromkeys(found))


def _check_protocol(sweep: Sweep, source: YamlSource, s: int, root: Path | None) -> None:
    """Values that do not fit are said where they stand: in the setting, else in the sweep."""
    setting = sweep.settings[s]

    def where(key: str) -> list[str | int]:
        return ["settings", s, "protocol", key] if key in setting.protocol else ["protocol", key]

    protocol = sweep.protocol | setting.protocol
    for key, value in protocol.items():
        with placed(source, where(key)):
            check_keys(Protocol, {key: value}, "protocol").reduction.check(get_info(setting.dataset, root))
    told = next((key for key in ("tasks", "n_tasks") if key in protocol), None)
    with placed(source, where(told) if told else ["settings", s, "dataset"]):
        split = check_keys(Protocol, protocol, "protocol")
        check_tasks(get_info(setting.dataset, root), split, "`protocol: {n_tasks: N}`")


def _absolute(dataset: str) -> str:
    """Workers have another working directory."""
    return f"{dataset.partition(':')[0]}:{find_own(dataset)}" if is_own(dataset) else dataset


def parse_only(words: Iterable[str]) -> dict[str, set[str]]:
    """`method=emi|er,dataset=cifar10` as key -> allowed values.

    >>> {k: sorted(v) for k, v in parse_only(["method=emi|er,dataset=cifar10"]).items()}
    {'method': ['emi', 'er'], 'dataset': ['cifar10']}
    """
    chosen: dict[str, set[str]] = {}
    for part in (p for word in words for p in word.split(",")):
        key, equals, values = (t.strip() for t in part.partition("="))
        if not equals or not values:
            raise UserError(f"--only {part} has no value", hint="write it as --only method=emi,dataset=cifar10")
        if key not in ONLY_KEYS:
            raise UserError(f"--only knows no '{key}'", hint=did_you_mean(key, ONLY_KEYS))
        chosen.setdefault(key, set()).update(values.split("|"))
    return chosen


def parse_seeds(text: str) -> set[int]:
    """`0-2,5` as seeds.

    >>> sorted(parse_seeds("0-2,5"))
    [0, 1, 2, 5]
    """
    seeds: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        try:
            low, high = int(first), int(last if dash else first)
        except ValueError:
            raise UserError(
                f"--seeds {text}: '{part}' is not a seed", hint="write --seeds 0-2 or --seeds 0,3"
            ) from None
        if high - low >= MOST_SEEDS:
            raise UserError(
                f"--seeds {text}: '{part}' is {high - low + 1} seeds, and a sweep has at most {MOST_SEEDS}",
                hint="write --seeds 0-2 or --seeds 0,3",
            )
        seeds |= set(range(low, high + 1))
    return seeds


def parse_shard(text: str) -> tuple[int, int]:
    """`3/16` as numbers.

    >>> parse_shard("3/16")
    (3, 16)
    """
    which, slash, of = text.partition("/")
    if not slash or not which.isdigit() or not of.isdigit() or not 1 <= int(which) <= int(of):
        raise UserError(f"--shard {text} is not a share", hint="the third of sixteen is --shard 3/16")
    return int(which), int(of)


def turns(cells: Iterable[Cell], shard: tuple[int, int] | None) -> dict[str, int]:
    """Which cells come first. A shard begins with its own share, and goes on with those of the next ones."""
    which, of = shard or (1, 1)
    return {cell.run_id: (i - which + 1) % of for i, cell in enumerate(cells)}


def select(cells: list[Cell], only: Mapping[str, set[str]], seeds: set[int] | None, limit: int | None) -> list[Cell]:
    """The cells that the options leave; an option that leaves none is a mistake, and said to be one."""

    def value(cell: Cell, key: str) -> str:
        return (str(getattr(cell.spec, key)) or "default") if key == "variant" else str(getattr(cell.spec, key))

    for key, values in only.items():
        known = {value(c, key) for c in cells}
        for name in values - known:
            raise UserError(f"--only {key}={name} names nothing of this sweep", hint=did_you_mean(name, known))
    kept = [c for c in cells if all(value(c, k) in v for k, v in only.items())]
    kept = [c for c in kept if seeds is None or c.spec.seed in seeds]
    if not kept:
        told = ", ".join(map(str, sorted({c.spec.seed for c in cells})))
        raise UserError("no cell is left: --only and --seeds exclude each other", hint=f"the sweep has seeds {told}")
    return kept if limit is None else kept[:limit]


def make_plan(cells: list[Cell], store: Store, *, repeated: int = 0, owner: str = "") -> Plan:
    """Sort cells by what the store says of them. `owner` is who asks: its own claims hold nothing back."""
    results = store.results()
    beside = store.beside() if any(side_paths(c.spec) for c in cells) else set()
    claims = store.claims.live(owner)
    plan = Plan(cells, repeated, results)
    for cell in cells:
        if cell.run_id in results and beside.issuperset(side_paths(cell.spec)):
            plan.done.append(cell)
        elif cell.run_id in claims:
            plan.held.append((cell, claims[cell.run_id]))
        else:
            plan.todo.append(cell)
    return plan


def planned(asked: Asked, store: Store) -> tuple[Sweep, Plan]:
    """The sweep of a file and its plan."""
    sweep, source = read_sweep(asked.file, asked.data_root)
    cells, repeated = expand(sweep, source, asked.data_root)
    seeds = parse_seeds(asked.seeds) if asked.seeds is not None else None
    cells = select(cells, parse_only(asked.only), seeds, asked.limit)
    return sweep, make_plan(cells, store, repeated=repeated)
