"""Ray: one of our own on loopback, or a cluster that is there. Ray's noise is off."""

from __future__ import annotations

import importlib
import logging
import os
import shutil
import socket
import sys
import warnings
from typing import Any

from emi_bench.errors import UserError
from emi_bench.run.host_memory import children_keep_freed_memory
from emi_bench.store.leftovers import SCRATCH
from emi_bench.store.processes import places, tag
from emi_bench.sweep.executors.ray import private
from emi_bench.sweep.executors.ray.nodes import nodes_alive
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


def start(machine: dict[str, float], *, every_core: bool) -> str:
    """Start a Ray of our own on loopback, with what this machine has; its folder."""
    private.keep_to_loopback()
    children_keep_freed_memory()
    if every_core:  # Ray says it to a worker before a run; one that has imported torch by then takes no notice
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    ray = _imported()
    folder = _temp_folder()
    try:
        with private.patient_start():
            ray.init(
                address="local",
                num_cpus=int(machine["CPU"]),
                num_gpus=int(machine.get("GPU", 0)),
                include_dashboard=False,
                **private.local_options(folder, every_core),
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
    for name in ("ray", "ray.tune", "ray.train", "ray.data"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    private.silence()
    return ray


def lost_errors() -> tuple[type[BaseException], ...]:
    """What says that Ray is gone."""
    from ray.exceptions import RayError

    return RayError, ConnectionError


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
