"""What the nodes of a Ray cluster have."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import Any

from emi_bench.errors import UserError
from emi_bench.sweep.resources import Cluster


def nodes_alive() -> Cluster:
    """What the nodes have that are there now."""
    import ray

    known: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return Cluster([node["Resources"] for node in known if node["Alive"]])


def card_bytes() -> float:
    """The memory of the smallest card of the cluster. Every node with cards is asked, and nothing reserved: others may
    be at work on all of them."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ask = ray.remote(num_cpus=0, num_gpus=0, max_retries=0)(cards_here)
    known: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    nodes = [n["NodeID"] for n in known if n["Alive"] and n["Resources"].get("GPU")]
    asked = [ask.options(scheduling_strategy=NodeAffinitySchedulingStrategy(n, soft=False)).remote() for n in nodes]
    answered, _ = ray.wait(asked, num_returns=len(asked), timeout=60)
    sizes: list[float] = []
    for answer in answered:
        with contextlib.suppress(ray.exceptions.RayError):  # a node that went away meanwhile
            sizes += ray.get(answer)
    if not answered:
        raise UserError(
            "no node with a card tells its memory within a minute",
            hint="say how much it has, `resources: {gpu_memory: 24}`, or give the share, `gpu: 0.2`",
        )
    if not sizes:
        raise UserError(
            "the cluster has cards, but neither nvidia-smi nor torch sees any of them",
            hint="install the driver and a CUDA build of torch, or say `resources: {gpu: 0}`",
        )
    return min(sizes)


def cards_here() -> list[float]:
    """Bytes of every card of this machine, also of those that this process may not use."""
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
        ask = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
        told = subprocess.run(ask, capture_output=True, text=True, timeout=30, check=True).stdout
        return [float(line) * 2**20 for line in told.split("\n") if line.strip()]
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
        # A process of its own: this one was told to see no card, which torch believes for good.
        script = "import torch as t; print(*(t.cuda.mem_get_info(i)[1] for i in range(t.cuda.device_count())))"
        free = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
        ask = [sys.executable, "-c", script]
        told = subprocess.run(ask, capture_output=True, text=True, timeout=60, check=True, env=free).stdout
        return [float(word) for word in told.split()]
    return []
