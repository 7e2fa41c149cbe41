"""What the Ray executor does beside running Ray."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest

from emi_bench.errors import UserError
from emi_bench.sweep.executors.ray import connection, loggers, nodes, private
from emi_bench.sweep.executors.ray.tuning import InTurn

LONG = "a-folder-with-a-name-that-is-too-long-for-the-path-of-a-socket"


def test_a_long_temporary_folder_is_left_for_a_short_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / LONG
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    folder = Path(connection._temp_folder())
    try:
        assert folder.parent != long
        session = "session_2026-11-17_21-23-46_123456_4194304/sockets/plasma_store"
        assert len(str(folder / session)) < 104  # the shortest limit there is, macOS's
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        folder.rmdir()


def test_where_no_short_folder_is_writable_there_is_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *told: False)
    with pytest.raises(UserError, match="--executor inline"):
        connection._temp_folder()


def test_whatever_keeps_a_local_ray_from_starting_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def fails(**options: object) -> None:
        raise ValueError("AF_UNIX path length cannot exceed 107 bytes\nand more")

    monkeypatch.setattr(ray, "init", fails)
    ours = f"emi-*-{os.getpid()}-*"
    before = set(Path(tempfile.gettempdir()).glob(ours))
    with pytest.raises(UserError, match="Ray does not start on this machine: ValueError: AF_UNIX") as told:
        connection.start({"CPU": 1.0}, every_core=False)
    assert "and more" not in str(told.value)
    assert set(Path(tempfile.gettempdir()).glob(ours)) == before


def test_every_kind_of_request_that_could_run_is_handed_out() -> None:
    """26 long runs for two cards before 52 short ones for cores: of the first ten handed out eight are for cores."""
    cells = [[{"cell": f"gpu{i}"} for i in range(26)], [{"cell": f"cpu{i}"} for i in range(52)]]
    turn = InTurn(cells, room=[2, 8])
    first = [turn.suggest(str(i))["cell"] for i in range(10)]
    assert first[0] == "gpu0"  # the longest is first
    assert sum(cell.startswith("cpu") for cell in first) == 8
    for i, cell in enumerate(first):
        if cell.startswith("cpu"):
            turn.on_trial_complete(str(i))
    assert {turn.suggest(f"next{i}")["cell"][:3] for i in range(8)} == {"cpu"}
    rest = [turn.suggest(f"rest{i}")["cell"] for i in range(60)]
    assert len({*first, *rest}) == 70


def test_the_smallest_card_is_found_without_reserving_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "nvidia-smi"
    fake.write_text("#!/bin/sh\nprintf '24576\\n11264\\n'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert nodes.cards_here() == [24576 * 2**20, 11264 * 2**20]


@pytest.mark.parametrize("version", ["2.59.1", "2.61.0", "3.0.0.dev0", "unknown"])
def test_a_ray_that_was_not_tried_is_left_as_it_is(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray
    from ray._private import services
    from ray.tune.execution import class_cache

    def told() -> tuple[Any, ...]:
        kept = class_cache.DEFAULT_ENV_VARS, class_cache.ENV_VARS_TO_PROPAGATE
        return *kept, ray._private.worker.print_to_stdstream, services.get_node, services.start_raylet

    monkeypatch.setattr(private, "version", lambda name: version)
    monkeypatch.setattr(os, "environ", {})
    before = told()
    assert private.local_options("here", every_core=True) == {}
    with pytest.warns(UserWarning, match="beyond this machine"):
        private.keep_to_loopback()
    assert os.environ == {}
    private.silence()
    with pytest.raises(UserError, match="does not know this version"):
        loggers.check("tensorboard", "results")
    with private.plain_workers(local=True), private.patient_start(60):
        assert told() == before
    monkeypatch.setattr(private, "version", lambda name: "2.60.0")
    assert private.local_options("here", every_core=True)["_system_config"]["prestart_worker_first_driver"]
    private.keep_to_loopback()
    assert os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "0"


def test_a_node_that_is_late_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ray._private import services

    answers = [RuntimeError("not yet"), RuntimeError("not yet"), {"node_id": "n"}]

    def ask(address: str, node: str) -> Any:
        if isinstance(answer := answers.pop(0), RuntimeError):
            raise answer
        return answer

    monkeypatch.setattr(services, "get_node", ask)

    def start(
        session_dir: str,
        node_id: str,
        metrics_agent_port: int = 0,
        metrics_export_port: int = 0,
        dashboard_agent_listen_port: int = 0,
        runtime_env_agent_port: int = 0,
    ) -> None:
        told = {path.name: int(path.read_text()) for path in Path(session_dir).iterdir()}
        ports = (metrics_agent_port, metrics_export_port, dashboard_agent_listen_port, runtime_env_agent_port)
        assert told == {f"{name}_{node_id}": port for name, port in zip(private.PORTS, ports, strict=True)}
        assert len({*told.values()} - {0}) == 4

    monkeypatch.setattr(services, "start_raylet", start)
    with private.patient_start(60):
        assert services.get_node("here", "n") == {"node_id": "n"}
        services.start_raylet(str(tmp_path), "ab" * 28, metrics_agent_port=0)
    assert services.get_node is ask
    answers.append(RuntimeError("never"))
    with private.patient_start(0.0), pytest.raises(RuntimeError, match="never"):
        services.get_node("here", "n")
