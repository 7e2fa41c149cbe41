"""What there is to run on, what each run asks of it, and whether it can ever be given."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from emi_bench.errors import UserError
from emi_bench.sweep.cost import Costs
from emi_bench.sweep.plan import Cell

MARGIN = 1.25  # over the measured peak: the allocator's spare blocks
CONTEXT_BYTES = 6e8  # CUDA context and libraries of a process


@dataclass(frozen=True)
class Cluster:
    """What there is to run on."""

    nodes: list[dict[str, float]]  #: resources of every live node

    def most(self, resource: str) -> float:
        """The largest amount of a resource on one node."""
        return max((n.get(resource, 0.0) for n in self.nodes), default=0.0)

    def total(self, resource: str) -> float:
        return sum(n.get(resource, 0.0) for n in self.nodes)

    def __str__(self) -> str:
        kinds: Counter[str] = Counter()
        for node in self.nodes:
            shown = {k: v for k, v in node.items() if ":" not in k and "memory" not in k}
            text = ", ".join(f"{v:g} {k}" for k, v in sorted(shown.items())) or "no CPU"
            kinds[text] += 1
        return "; ".join(f"{n} node{'s' * (n > 1)} with {text}" for text, n in kinds.items())


def this_machine() -> Cluster:
    """This machine as a cluster of one."""
    cards = torch.cuda.device_count()
    return Cluster([{"CPU": float(cores())} | ({"GPU": float(cards)} if cards else {})])


def cores() -> int:
    """Cores that this process may use: a container may have fewer than the machine."""
    n = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        n = min(n, len(os.sched_getaffinity(0)))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1, min(n, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no such file, or no limit ("max")
        return n


def card_bytes() -> float:
    """The memory of the smallest card of this machine."""
    return min(
        (float(torch.cuda.get_device_properties(i).total_memory) for i in range(torch.cuda.device_count())), default=0.0
    )


@dataclass(frozen=True)
class Request:
    """Resources of one run, settled."""

    cpu: float = 1.0
    gpu: float = 0.0
    device: str = "auto"
    custom: tuple[tuple[str, float], ...] = ()
    time: float | None = None  #: seconds, at most

    def bundle(self) -> dict[str, float]:
        """As Ray counts them."""
        asked = {"CPU": self.cpu, "GPU": self.gpu, **dict(self.custom)}
        return {k: v for k, v in asked.items() if v}

    @property
    def threads(self) -> int:
        """Of torch: one a CPU."""
        return max(1, math.ceil(self.cpu))

    @property
    def where(self) -> str:
        """Where torch computes."""
        return self.device if self.device != "auto" else "cuda" if self.gpu > 0 else "cpu"

    @property
    def shared(self) -> bool:
        """Whether others may be on the card."""
        return 0 < self.gpu < 1

    def alone(self) -> Request:
        """The same run with a card to itself."""
        return replace(self, gpu=1.0)

    def __str__(self) -> str:
        return ", ".join(f"{v:g} {k}" for k, v in self.bundle().items())


def share_for(peak_bytes: float, card_bytes: float) -> float:
    """The share 1/k of a card that holds a run of this peak, so that shares fill a card.

    >>> share_for(peak_bytes=3.2e9, card_bytes=24e9), share_for(20e9, 24e9)
    (0.2, 1.0)
    """
    need = MARGIN * peak_bytes + CONTEXT_BYTES
    return 1 / max(1, min(20, math.floor(card_bytes / need)))


def settle(cells: Iterable[Cell], costs: Costs, cluster: Cluster, card: Callable[[], float]) -> dict[str, Request]:
    """The request of every cell. `card` tells the bytes of a card, and is asked only where `gpu: auto` needs them."""
    cards = cluster.most("GPU") > 0
    size: float | None = None
    found: dict[str, Request] = {}
    for cell in cells:
        r = cell.resources
        gpu = 0.0
        if r.gpu == "auto":
            if cards and r.device != "cpu":
                if r.gpu_memory is None and size is None:
                    size = card()
                room = r.gpu_memory * 1e9 if r.gpu_memory is not None else size or 0.0
                gpu = share_for(costs.of(cell, gpu=True).peak_bytes, room)
        else:
            gpu = float(r.gpu or 0.0)
        found[cell.run_id] = Request(
            float(r.cpu or 1), gpu, r.device or "auto", tuple(sorted(r.custom.items())), r.time
        )
    return found


def warnings_of(requests: Iterable[Request]) -> list[str]:
    """Shares that leave a part of every card unused."""
    told = []
    for share in sorted({r.gpu for r in requests if 0 < r.gpu < 1}):
        runs = math.floor(1 / share + 1e-9)
        unused = 1 - runs * share
        if unused > 0.01:
            told.append(
                f"gpu: {share:g} does not divide a card: {runs} run{'s' * (runs > 1)} fit and {100 * unused:.0f} % "
                f"of it stays empty; {1 / runs:.4g} would use it all"
            )
    return told


def fits(request: Request, free: Mapping[str, float]) -> bool:
    """Whether there is room for one more such run."""
    return all(free.get(k, 0.0) + 1e-9 >= v for k, v in request.bundle().items())


def check_feasible(requests: dict[str, Request], cluster: Cluster) -> None:
    """Refuse, before anything starts, what no node can ever give."""
    for request, n in Counter(requests.values()).items():
        bundle = request.bundle()
        if any(fits(request, node) for node in cluster.nodes):
            continue
        short = [k for k, v in bundle.items() if cluster.most(k) + 1e-9 < v]
        key = {"CPU": "cpu", "GPU": "gpu"}.get(short[0], f"custom.{short[0]}") if short else ""
        if short == ["GPU"] and cluster.most("GPU") == 0:
            fix = "say `resources: {gpu: 0}` (or leave it out) to run on CPUs, or join a cluster with --address"
        elif short:
            most = f"{cluster.most(short[0]):g}"
            fix = f"ask for at most {most} in `resources: {key}`, or join a larger cluster with --address"
        else:
            fix = "no single node has all of it: lower `resources` in the sweep file"
        raise UserError(
            f"{n} run{'s' * (n > 1)} ask{'s' * (n == 1)} for {request} each, and no node has that: "
            f"the cluster has {cluster}",
            hint=f"{fix}. Nodes that an autoscaler will add: --autoscaling",
        )


def slots(requests: Iterable[Request], cluster: Cluster, most: int | None = None) -> int:
    """Runs at a time, if every kind of request gets its turn."""
    kinds = list(dict.fromkeys(requests))
    n = 0
    for node in cluster.nodes:
        free, fitting = dict(node), kinds
        while fitting := [kind for kind in fitting if fits(kind, free)]:
            for kind in fitting:
                if fits(kind, free):
                    free |= {k: free[k] - v for k, v in kind.bundle().items()}
                    n += 1
    return max(1, min(n, most or n))
