"""Ray: one of our own on loopback, or a cluster that is there. Ray's noise is off."""

from __future__ import annotations

import importlib
import logging
import os
import shutil
import socket
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from emi_bench.errors import UserError
from emi_bench.sweep.executors.ray import private
from emi_bench.sweep.resources import Cluster

PREFIX = "emi-ray-"

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
#: Only for a Ray of our own.
LOCAL = {
    "RAY_AUTH_MODE": "disabled",
    # Ray's workers would yield to every other process; a run of a sweep is worth as much as a run by itself.
    "RAY_worker_niceness": "0",
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
    return Cluster([node["Resources"] for node in ray.nodes() if node["Alive"]])


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
    folder = str(_temp_folder())
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
    """The memory of the smallest card that answers; asked of one worker with a card."""
    import ray

    @ray.remote(num_gpus=1, num_cpus=0)  # type: ignore[misc, unused-ignore]
    def ask() -> float:
        import torch

        return float(torch.cuda.get_device_properties(0).total_memory) if torch.cuda.is_available() else 0.0

    try:
        answer: float = ray.get(ask.remote(), timeout=60)
    except Exception as e:
        raise UserError(
            f"no card of the cluster tells its memory: {type(e).__name__}",
            hint="say how much it has, `resources: {gpu_memory: 24}`, or give the share, `gpu: 0.2`",
        ) from e
    if not answer:
        raise UserError(
            "the cluster has cards, but torch sees none of them",
            hint="install a CUDA build of torch, or say `resources: {gpu: 0}`",
        )
    return answer


def _knock(address: str) -> None:
    """Ray itself tries for a minute or more before it says that nobody is there."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=5).close()


def _temp_folder() -> Path:
    """A short path (sockets live in it) that names its process, so that the remains of killed ones can be cleared."""
    base = Path(tempfile.gettempdir())
    for old in base.glob(f"{PREFIX}*"):
        pid = old.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists() and Path("/proc/self").exists():
            shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
