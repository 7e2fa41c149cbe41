"""What a run costs: from results in the store where there are some, else from a count of multiplications.

The count takes one forward of an image as 1 and one backward as 2, as the specification of each method does, times the
multiply-accumulates of the reduced ResNet-18 (54.6 M at 32 px and nf=20). Seconds follow from two reference speeds;
they are estimates and are said to be.
"""

from __future__ import annotations

import itertools
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emi_bench.data import get_info
from emi_bench.methods import get_method
from emi_bench.nets.backbones import get_backbone
from emi_bench.run.resolve import make_problem
from emi_bench.run.spec import RunSpec
from emi_bench.store import Store
from emi_bench.store.reading import parse
from emi_bench.sweep.plan import Cell

MACS = 54.6e6  # of one forward at 32 px, nf=20
ACTIVATION_BYTES = 1.48e6  # kept for the backward of one image at 32 px, nf=20, fp32
GPU_RATE, GPU_STEP = 8.0e12, 0.015  # MAC/s and seconds of launches a step: the paper's EMI step, 676 GMAC in 84.1 ms
CPU_RATE, CPU_STEP = 15.0e9, 0.012  # one core
SAMPLED = 2  # results read of each group: enough to know a speed, and no more files than cells of a table


@dataclass(frozen=True)
class Load:
    """Of one run: images through the network in forward passes (a backward counts two), steps, images kept at once."""

    forwards: float
    steps: float
    kept: float
    macs: float = MACS  #: multiplications of the forward of an image
    image_bytes: float = ACTIVATION_BYTES  #: kept for the backward of an image

    def seconds(self, gpu: bool) -> float:
        """Of a run that nobody has measured."""
        rate, step = (GPU_RATE, GPU_STEP) if gpu else (CPU_RATE, CPU_STEP)
        return self.forwards * self.macs / rate + self.steps * step

    @property
    def peak_bytes(self) -> float:
        """On a card, of a run that nobody has measured: activations, and half a gigabyte for the context."""
        return self.kept * self.image_bytes + 5e8


def load_of(spec: RunSpec, root: Path | None = None) -> Load:
    """The work of a run, counted by what its method says of a step and of the end of a task; `root` as for its data."""
    p, info = spec.protocol, get_info(spec.source or spec.dataset, root)
    problem, info = make_problem(info, spec.memory, p), p.reduction.of(info)
    macs = get_backbone(p.backbone).macs(p.width, info.image_size)
    image = ACTIVATION_BYTES * (info.image_size / 32) ** 2 * p.width / 20 * (0.6 if p.precision == "bf16" else 1.0)
    cls = get_method(spec.method)
    config = cls.config_class(**spec.config)
    seen = [n / info.n_classes for n in itertools.accumulate(problem.task_sizes)]  # shares of the classes
    tested = info.n_test * sum(seen) * p.eval_window
    if spec.anytime:
        whole = info.n_test / info.n_classes
        images = min(whole, whole if spec.anytime.images is None else spec.anytime.images)
        points = info.n_train / spec.n_tasks / problem.batch / spec.anytime.every  # of a task
        tested += images * info.n_classes * points * sum(seen)
    if cls.joint:
        epochs, size = spec.config["epochs"], spec.config["batch"]
        return Load(3.0 * info.n_train * epochs + info.n_test, info.n_train * epochs / size, size, macs, image)
    step, steps = cls.forwards(config, problem), info.n_train / problem.batch / spec.train_every
    ends = sum(cls.end_forwards(config, problem, int(info.n_train * share)) for share in seen)
    if not step:  # all the work is at the ends, in steps of the same batch
        steps, step = ends / (3 * problem.batch), 3.0 * problem.batch
        ends = 0.0
    return Load(step * steps + ends + tested, steps, step / 3, macs, image)


@dataclass(frozen=True)
class RunCost:
    """`seconds` of one run; `measured` where runs that differ only in the seed are in the store."""

    seconds: float
    measured: bool
    peak_bytes: float


class Costs:
    """Estimates for cells, calibrated by what the store holds."""

    def __init__(
        self, store: Store, cells: Iterable[Cell], results: dict[str, str] | None = None, root: Path | None = None
    ) -> None:
        self._root = root
        self._known: dict[tuple[str, bool], list[tuple[float, int]]] = defaultdict(list)
        ratios: dict[tuple[str, bool], list[float]] = defaultdict(list)
        self._cache: dict[tuple[str, bool], RunCost] = {}
        wanted = {Store.path(c.spec).rpartition("/")[0] for c in cells}
        for spec, load, first in _sample(store, wanted, store.results() if results is None else results, root):
            seconds, gpu = first["wall_seconds"], first["device"] != "cpu"
            self._known[spec.cell_id, gpu].append((seconds, first["peak_memory_bytes"]))
            ratio = seconds / max(1e-3, load.seconds(gpu))
            ratios[spec.method, gpu].append(ratio)
            ratios["", gpu].append(ratio)
        self._ratio = {key: statistics.median(values) for key, values in ratios.items()}

    def of(self, cell: Cell, gpu: bool) -> RunCost:
        """What a cell costs on a card or on a CPU."""
        key = cell.cell_id, gpu
        if key not in self._cache:
            self._cache[key] = self._estimate(cell.spec, gpu)
        return self._cache[key]

    def _estimate(self, spec: RunSpec, gpu: bool) -> RunCost:
        known, load = self._known.get((spec.cell_id, gpu)), load_of(spec, self._root)
        if known:
            seconds = statistics.median(s for s, _ in known)
            return RunCost(seconds, True, max(peak for _, peak in known) if gpu else load.peak_bytes)
        ratio = self._ratio.get((spec.method, gpu), self._ratio.get(("", gpu), 1.0))
        return RunCost(ratio * load.seconds(gpu), False, load.peak_bytes)


def _sample(
    store: Store, folders: set[str], results: dict[str, str], root: Path | None
) -> Iterable[tuple[RunSpec, Load, dict[str, Any]]]:
    """A few readable results of every group of runs that differ in the seed alone: spec, work, first row."""
    taken: dict[str, int] = defaultdict(int)
    for path in results.values():
        folder = path.rpartition("/")[0]
        group = re.sub(r"-s\d+-[0-9a-f]{64}\.parquet$", "", path)
        if folder not in folders or taken[group] >= SAMPLED:
            continue
        taken[group] += 1
        try:
            stored = parse(store.files.read(path) or b"")
            first = stored.table.slice(0, 1).to_pylist()[0]
            spec = RunSpec.model_validate(stored.told["spec"])
            load = load_of(spec, root)
        except Exception:  # a damaged or foreign file is the reader's business; here it only fails to inform
            continue
        yield spec, load, first
