"""What we do to Ray behind its back, for the versions that it was tried with.

With any other version Ray is left as it is: slower to the first run, louder, on the machine's address and with its own
folder, and without curves for tensorboard.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import re
import socket
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray import tune

TRIED = ((2, 60), (2, 61))  # from, and before: as in pyproject.toml
PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port", "runtime_env_agent_port")
WORKER = "emi_bench.sweep.executors.ray.trial"
RAYLET_START = "RAY_raylet_start_wait_time_s"
#: Read by a Ray of our own when it is imported and when its parts start.
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


def tried(release: str | None = None) -> bool:
    """Whether this version of Ray (the installed one) is one that the tricks were tried with.

    >>> tried("2.60.1"), tried("2.61.0"), tried("3.0.0.dev0")
    (True, False, False)
    """
    found = re.match(r"(\d+)\.(\d+)", version("ray") if release is None else release)
    return found is not None and TRIED[0] <= (int(found[1]), int(found[2])) < TRIED[1]


def keep_to_loopback() -> None:
    """Before Ray is imported. It turns 127.0.0.1 into the machine's address and then listens on all interfaces; the
    first variable keeps every one of its ports on loopback, where no token has to guard them."""
    if not tried():
        warnings.warn(f"Ray {version('ray')} was not tried: it may listen beyond this machine", stacklevel=2)
        return
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    for key, value in LOCAL.items():
        os.environ.setdefault(key, value)


def local_options(folder: str, every_core: bool) -> dict[str, Any]:
    """Options of `ray.init`. Ray can start as many workers along with itself as there are cores. They import what a run
    needs while it is still busy; where fewer are of use, the others would only take time and memory."""
    if not tried():
        return {}
    flags = {"prestart_worker_first_driver": every_core, "preload_python_modules": [WORKER] * every_core}
    return {"_node_ip_address": "127.0.0.1", "_temp_dir": folder, "_system_config": flags}


@contextlib.contextmanager
def patient_start(seconds: float | None = None) -> Iterator[None]:
    """Ray gives a node 30 s to become known, whatever it is told. It asks until that time is over; so each question is
    answered late, and the node has so many seconds. Its raylet waits 15 s for agents to say on which ports they are,
    and then dies (ray-project/ray#65983); it need not wait where that was said for them."""
    if not tried():
        yield
        return
    from ray._private import services
    from ray._raylet import persist_port  # type: ignore[attr-defined]

    ask, start = services.get_node, services.start_raylet

    def with_ports(*args: Any, **options: Any) -> Any:
        told = inspect.signature(start).bind(*args, **options)
        told.arguments |= dict(zip(PORTS, _free_ports(len(PORTS)), strict=True))
        for name in PORTS:
            persist_port(told.arguments["session_dir"], told.arguments["node_id"], name, told.arguments[name])
        return start(*told.args, **told.kwargs)

    def patiently(address: str, node: str) -> Any:
        until = time.monotonic() + (float(os.environ[RAYLET_START]) if seconds is None else seconds)
        while True:
            try:
                return ask(address, node)  # type: ignore[no-untyped-call]
            except RuntimeError:
                if time.monotonic() > until:
                    raise
            time.sleep(0.2)

    services.get_node, services.start_raylet = patiently, with_ports
    try:
        yield
    finally:
        services.get_node, services.start_raylet = ask, start


def _free_ports(n: int) -> list[int]:
    with contextlib.ExitStack() as open_:
        return [open_.enter_context(socket.create_server(("", 0))).getsockname()[1] for _ in range(n)]


def silence() -> None:
    """Ray prints a paragraph for every lost worker, whatever it is told; the display has a line for it."""
    if tried():
        import ray

        ray._private.worker.print_to_stdstream = lambda *args, **kwargs: None
        logging.getLogger("ray._private").setLevel(logging.CRITICAL)


@contextlib.contextmanager
def plain_workers(local: bool) -> Iterator[None]:
    """Tune gives its workers an environment, and Ray a new process to whatever has one. Without it, a process that is
    there already will do. A local Ray's have all of it from this one; to others, keys to a bucket are still brought."""
    if not tried():
        yield
        return
    from ray.tune.execution import class_cache

    former = class_cache.DEFAULT_ENV_VARS, class_cache.ENV_VARS_TO_PROPAGATE
    keys = set() if local else {name for name in class_cache.ENV_VARS_TO_PROPAGATE if name.startswith("AWS_")}
    class_cache.DEFAULT_ENV_VARS, class_cache.ENV_VARS_TO_PROPAGATE = {}, keys
    try:
        yield
    finally:
        class_cache.DEFAULT_ENV_VARS, class_cache.ENV_VARS_TO_PROPAGATE = former


def curves(place: str, name: Callable[[Any], str]) -> tune.Callback:
    """Tensorboard's curves, each trial's in a folder that is named for it. `--log` refuses it for a Ray not tried."""
    from ray.tune.logger import TBXLoggerCallback

    class Kept(TBXLoggerCallback):
        """Writes where the curves are to stay. Tune's own writes to a folder of its session, and has it copied once the
        sweep is over: after Ctrl-C there would be nothing. Its flush after every point comes before the writer's thread
        has that point; one a second later has it, so that SIGKILL costs no finished task."""

        def log_trial_start(self, trial: Any) -> None:
            if trial in self._trial_writer:
                self._trial_writer[trial].close()
            self._trial_writer[trial] = self._summary_writer_cls(f"{place}/{name(trial)}", flush_secs=1)
            self._trial_result[trial] = {}

    made: tune.Callback = Kept()  # type: ignore[no-untyped-call]
    return made
