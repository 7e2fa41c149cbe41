"""Ray: one of our own on loopback, or a cluster that is there. Ray's noise is off."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import shutil
import socket
import subprocess
import sys
import warnings
from typing import Any

from emi_bench.errors import UserError
from emi_bench.store.leftovers import SCRATCH
from emi_bench.store.processes import places, tag
from emi_bench.sweep.executors.ray import private
from emi_bench.sweep.resources import Cluster

LONGEST_PLACE = 9  # of TMPDIR: with our folder, Ray's session and the socket's name it comes to 103

#: Read by Ray and Tune when they are imported or when workers start.
QUIET = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_AUTO_CALLBACK_SYNCER": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",  # Tune's own snapshots are never read: the store is the truth
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # a run without a card sees no card
    "RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}
RAYLET_START = "RAY_raylet_start_wait_time_s"
#: Only for a Ray of our own.
LOCAL = {
    "RAY_AUTH_MODE": "disabled",
    # Ray's workers would yield to every other process; a run of a sweep is worth as much as a run by itself.
    "RAY_worker_niceness": "0",
    # A busy machine needs more than Ray's 30 to 60 s, for every part of it.
    "RAY_gcs_server_port_wait_time_s": "120",
    "RAY_agent_register_timeout_ms": "120000",
    "RAY_worker_register_timeout_seconds": "120",
    RAYLET_START: "120",
}
INIT: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL, "configure_logging": True}


def join(address: str) -> Cluster:
    """Join a cluster that is there; what its nodes have."""
    ray = _imported()
    try:
        _knock(address)
        ray.init(address=address, **INIT)
    except (OSError, RuntimeError, ValueError) as e:
        raise UserError(
            f"no Ray cluster at {address}: {str(e).splitlines()[0]}",
            hint="start one with `ray start --head`, or leave --address (and RAY_ADDRESS) out to use this machine",
        ) from e
    return nodes_alive()


def nodes_alive() -> Cluster:
    """What the nodes have that are there now."""
    import ray

    known: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return Cluster([node["Resources"] for node in known if node["Alive"]])


def start(machine: dict[str, float], *, every_core: bool) -> str:
    """Start a Ray of our own on loopback, with what this machine has; its folder."""
    # Ray turns 127.0.0.1 into the machine's address and then listens on all interfaces. This variable, read when Ray is
    # imported, keeps every one of its ports on loopback, where no token has to guard them.
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    for key, value in LOCAL.items():
        os.environ.setdefault(key, value)
    if every_core:  # Ray says it to a worker before a run; one that has imported torch by then takes no notice
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    ray = _imported()
    folder = _temp_folder()
    try:
        with private.patient_start(float(os.environ[RAYLET_START])):
            ray.init(
                address="local",
                num_cpus=int(machine["CPU"]),
                num_gpus=int(machine.get("GPU", 0)),
                include_dashboard=False,
                _node_ip_address="127.0.0.1",
                _temp_dir=folder,
                **private.ready_workers(every_core),
                **INIT,
            )
    except Exception as e:  # of many kinds, and some of its own
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
        raise _no_ray(f"{type(e).__name__}: {str(e).strip().partition(chr(10))[0]}") from e
    return folder


def leave(folder: str | None) -> None:
    """Leave Ray; one of our own goes, with its folder."""
    if "ray" in sys.modules:
        sys.modules["ray"].shutdown()
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _imported() -> Any:
    for key, value in QUIET.items():
        os.environ.setdefault(key, value)
    warnings.filterwarnings("ignore", module="ray.*")
    import ray

    # Takes seconds: not while Ray's workers wait for a first run.
    importlib.import_module("emi_bench.sweep.executors.ray.tuning")
    for name in ("ray", "ray.tune", "ray.train", "ray.data", "ray._private"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    private.silence()
    return ray


def lost_errors() -> tuple[type[BaseException], ...]:
    """What says that Ray is gone."""
    from ray.exceptions import RayError

    return RayError, ConnectionError


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


def _knock(address: str) -> None:
    """Ray itself tries for a minute or more before it says that nobody is there."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=5).close()


def _temp_folder() -> str:
    """A folder for Ray that names its process, so that the remains of killed ones can be cleared. Sockets live in it,
    whose paths may have about a hundred characters: where TMPDIR is long, another place is taken."""
    short = [place for place in places() if len(str(place)) <= LONGEST_PLACE and os.access(place, os.W_OK)]
    if not short:
        raise _no_ray(
            f"no folder with a path of at most {LONGEST_PLACE} characters is writable: Ray's sockets need one"
        )
    folder = short[0] / f"{SCRATCH}{tag()}"
    folder.mkdir(mode=0o700)
    return str(folder)


def _no_ray(why: str) -> UserError:
    return UserError(
        f"Ray does not start on this machine: {why}",
        hint="where the machine is only busy, give the command again; else set TMPDIR to a folder with a short path "
        "and some room (Ray's log is below it), or do without: --executor inline runs in this process",
    )
