"""Ray: one of our own on loopback, or a cluster that is there. Ray's noise is off."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import shutil
import socket
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emi_bench.errors import UserError

PREFIX = "emi-ray-"
WORKER = "emi_bench.sweep.worker"

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


@dataclass(frozen=True)
class Cluster:
    """What there is to run on."""

    local: bool
    nodes: list[dict[str, float]]  #: resources of every live node

    def most(self, resource: str) -> float:
        """The largest amount of a resource on one node."""
        return max((n.get(resource, 0.0) for n in self.nodes), default=0.0)

    def total(self, resource: str) -> float:
        return sum(n.get(resource, 0.0) for n in self.nodes)

    def __str__(self) -> str:
        kinds: dict[str, int] = {}
        for node in self.nodes:
            shown = {k: v for k, v in node.items() if ":" not in k and "memory" not in k}
            text = ", ".join(f"{v:g} {k}" for k, v in sorted(shown.items()))
            kinds[text] = kinds.get(text, 0) + 1
        return "; ".join(f"{n} node{'s' * (n > 1)} with {text}" for text, n in kinds.items())


def is_local(address: str | None) -> bool:
    """Whether a sweep starts a Ray of its own: no cluster is named by the option or by RAY_ADDRESS."""
    return not (address or os.environ.get("RAY_ADDRESS"))


@contextlib.contextmanager
def connected(address: str | None, *, every_core: bool = False) -> Iterator[Cluster]:
    """Ray for the time of a sweep. Without an address (option or RAY_ADDRESS): a local one, gone afterwards.

    `every_core`: as many runs at a time are expected as this machine has cores, so a local Ray starts with workers.
    """
    local = is_local(address)
    for key, value in QUIET.items():
        os.environ.setdefault(key, value)
    if local:
        # Ray turns 127.0.0.1 into the machine's address and then listens on all interfaces. This variable, read when
        # Ray is imported, keeps every one of its ports on loopback, where no token has to guard them.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        os.environ.setdefault("RAY_AUTH_MODE", "disabled")
        # Ray's workers would yield to every other process; a run of a sweep is worth as much as a run by itself.
        os.environ.setdefault("RAY_worker_niceness", "0")
        if every_core:  # Ray says it to a worker before a run; one that has imported torch by then takes no notice
            os.environ.setdefault("OMP_NUM_THREADS", "1")
    warnings.filterwarnings("ignore", module="ray.*")
    import ray

    importlib.import_module("emi_bench.sweep.tuning")  # takes seconds: not while Ray's workers wait for a first run

    for name in ("ray", "ray.tune", "ray.train", "ray.data", "ray._private"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # Ray prints a paragraph for every lost worker, whatever it is told; the display has a line for it.
    ray._private.worker.print_to_stdstream = lambda *args, **kwargs: None
    folder = _temp_folder() if local else None
    try:
        _start(ray, address, folder, every_core)
        known: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
        nodes = [n["Resources"] for n in known if n["Alive"]]
        try:
            with _plain_workers(local):
                yield Cluster(local, nodes)
        except (ray.exceptions.RayError, ConnectionError) as e:
            told = str(e).strip().partition("\n")[0][:200]
            raise UserError(
                f"lost the Ray cluster: {type(e).__name__}: {told}",
                hint="finished tasks are kept: the same command goes on from there",
            ) from e
    finally:
        ray.shutdown()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _start(ray: Any, address: str | None, folder: Path | None, every_core: bool) -> None:
    quiet = {"log_to_driver": False, "logging_level": logging.CRITICAL, "configure_logging": True}
    if folder is None:
        try:
            _knock(address or os.environ["RAY_ADDRESS"])
            ray.init(address=address, **quiet)
        except (OSError, RuntimeError, ValueError) as e:
            raise UserError(
                f"no Ray cluster at {address or os.environ.get('RAY_ADDRESS')}: {str(e).splitlines()[0]}",
                hint="start one with `ray start --head`, or leave --address (and RAY_ADDRESS) out to use this machine",
            ) from e
        return
    ray.init(
        address="local",
        include_dashboard=False,
        _node_ip_address="127.0.0.1",
        _temp_dir=str(folder),
        # Ray can start as many workers along with itself as there are cores. They import what a run needs while it is
        # still busy; where fewer are of use, the others would only take time and memory.
        _system_config={"prestart_worker_first_driver": every_core, "preload_python_modules": [WORKER] * every_core},
        **quiet,
    )


@contextlib.contextmanager
def _plain_workers(local: bool) -> Iterator[None]:
    """Tune gives its workers an environment, and Ray a new process to whatever has one. Without it, a process that is
    there already will do. A local Ray's have all of it from this one; to others, keys to a bucket are still brought."""
    from ray.tune.execution import class_cache

    former = class_cache.DEFAULT_ENV_VARS, class_cache.ENV_VARS_TO_PROPAGATE
    keys = set() if local else {name for name in class_cache.ENV_VARS_TO_PROPAGATE if name.startswith("AWS_")}
    class_cache.DEFAULT_ENV_VARS, class_cache.ENV_VARS_TO_PROPAGATE = {}, keys
    try:
        yield
    finally:
        class_cache.DEFAULT_ENV_VARS, class_cache.ENV_VARS_TO_PROPAGATE = former


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
