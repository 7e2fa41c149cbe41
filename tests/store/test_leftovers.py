"""Killed at any instant, a run leaves nothing that is not cleared, and nothing that lives is touched."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo  # every child would import it anew, with its first step
from typer.testing import CliRunner

from emi_bench.cli.app import app
from emi_bench.run.checkpoint import Checkpoint, State
from emi_bench.run.execute import execute
from emi_bench.run.result import FeatureTable
from emi_bench.run.spec import RunSpec
from emi_bench.store import Store, leftovers
from emi_bench.store.checkpoints import save_checkpoint
from emi_bench.store.failures import Failures
from emi_bench.store.leases import Claim, Lease
from emi_bench.store.leftovers import Leftover, scratch
from emi_bench.store.patient import MARKER, PatientStore
from emi_bench.store.processes import tag
from emi_bench.sweep.check import read_sweep
from emi_bench.sweep.plan import expand
from tests.store.test_leases import rewrite
from tests.store.test_store import made_up
from tests.sweep.sweeping import ask, sweep_file
from tests.synthetic import register_blobs, spec

FORK = multiprocessing.get_context("fork")


def paths(store: Store) -> set[str]:
    return {leftover.path for leftover in leftovers.leftovers(store)}


def tagged(pid: int) -> str:
    machine, _, rest = tag().split("-")
    return f"{machine}-{pid}-{rest}"


@pytest.fixture
def gone() -> int:
    """The number of a process that has ended."""
    child = FORK.Process(target=int)
    child.start()
    child.join()
    assert child.pid is not None
    return child.pid


def claim_of(store: Store, spec: RunSpec, **changes: Any) -> Claim:
    claim = store.claims.acquire(spec.run_id, owner="somebody")
    assert claim is not None
    rewrite(store.claims, replace(claim, **changes))
    return claim


def test_temporary_files_go_with_their_process_or_with_time(tmp_path: Path, gone: int) -> None:
    store, run = Store(tmp_path), made_up().spec
    names = {
        f"_checkpoints/_{run.run_id}.pt.{tagged(gone)}.tmp": True,
        f"_probe.{tagged(gone)}.tmp": True,
        f"_checkpoints/_{run.run_id}.pt.{tag()}.tmp": False,  # of a process that lives
        f"_checkpoints/_{run.run_id}.pt.0a1b2c3d-{gone}-00000000.tmp": False,  # of another machine, a moment ago
        "digits/er/_old.0a1b2c3d-1-00000000.tmp": True,  # of another machine, of yesterday
        f"digits/er/_m1-s0-{run.run_id}.parquet.12345678.tmp": False,  # of yesterday, but its run is being done
    }
    for name in names:
        store.put(name, b"half")
    for name in list(names)[4:]:
        os.utime(tmp_path / name, (time.time() - 90000,) * 2)
    claim_of(store, run)
    assert paths(store) == {name for name, left in names.items() if left}


def test_claims_go_when_nobody_holds_them(tmp_path: Path, gone: int) -> None:
    store = Store(tmp_path)
    dead, silent, living, elsewhere = (claim_of(store, spec("er", seed=i)) for i in range(4))
    rewrite(store.claims, replace(dead, pid=gone))
    rewrite(store.claims, replace(silent, host="far", heartbeat=time.time() - 100))
    rewrite(store.claims, replace(elsewhere, host="far", pid=gone))
    assert paths(store) == {dead.path, silent.path}
    leftovers.tidy(store)
    assert set(store.files.list("_claims")) == {living.path, elsewhere.path}


def test_a_dead_claim_that_another_takes_first_stays_with_it(tmp_path: Path, gone: int) -> None:
    store = Store(tmp_path)
    claim_of(store, spec("er"), pid=gone)
    found = leftovers.leftovers(store)
    taken = store.claims.acquire(spec("er").run_id, owner="quicker")
    assert taken is not None
    leftovers.clear(store, found)
    assert store.files.exists(taken.path)


def test_checkpoints_and_failures_go_when_their_run_is_done(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for seed in range(4):
        run = spec("er", seed=seed)
        save_checkpoint(store, Checkpoint(run.run_id, 1, {}, State(phase=1), features=seed == 1))
        Failures(store.files).record(run, ValueError("no"), "")
    for seed in (0, 1, 3):
        store.write(made_up(seed))
    claim_of(store, spec("er", seed=3))  # done, and somebody is at it: about to clear up, or to add features
    done, wants_features = (spec("er", seed=seed).run_id for seed in (0, 1))
    assert paths(store) == {f"_checkpoints/{done}.pt", f"_failures/{done}.json", f"_failures/{wants_features}.json"}
    table = FeatureTable(*(torch.ones(1).numpy(),) * 3, torch.ones(1, 2).numpy())
    store.write(made_up(1, features=table))
    assert f"_checkpoints/{wants_features}.pt" in paths(store)


def test_the_command_shows_what_it_would_do_and_then_does_it(tmp_path: Path, gone: int) -> None:
    store = Store(tmp_path)
    claim = claim_of(store, spec("er"), pid=gone)
    arguments = ["clean", "--results", str(tmp_path)]
    assert "1 leftovers; nothing was touched" in CliRunner().invoke(app, [*arguments, "--dry-run"]).output
    assert store.files.exists(claim.path)
    assert "1 leftovers cleared" in CliRunner().invoke(app, arguments).output
    assert store.files.list() == []


def test_folders_of_a_sweep_go_with_it_and_with_the_last_that_uses_them(
    tmp_path: Path, gone: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left, living, used, other = (
        tmp_path / name
        for name in (
            f"emi-{tagged(gone)}-a",
            f"emi-{tag()}",
            f"emi-{tagged(gone)}-b",
            f"mine-{tagged(gone)}",
        )
    )
    for folder in (left, living, used, other):
        folder.mkdir()
    (used / "socket").touch()
    with open(used / "socket"):  # a worker that outlives its driver for a moment
        assert scratch() == [Leftover(str(left), "its sweep is gone")]
        leftovers.tidy(Store(tmp_path / "results"))
        assert sorted(tmp_path.iterdir()) == sorted((living, used, other))
    assert scratch() == [Leftover(str(used), "its sweep is gone")]


def test_a_sweep_with_nothing_to_do_clears_what_the_last_one_left(tmp_path: Path, gone: int) -> None:
    file, store = sweep_file(tmp_path, methods="er", seeds=1), Store(tmp_path / "results")
    (cell,), _ = expand(*read_sweep(file))
    store.write(made_up(spec=cell.spec))
    save_checkpoint(store, Checkpoint(cell.run_id, 1, {}, State(phase=5)))
    claim_of(store, cell.spec, pid=gone)
    store.put(f"_checkpoints/_{cell.run_id}.pt.{tagged(gone)}.tmp", b"half")
    assert len(paths(store)) == 3
    for words in (["plan", file], ["status", file]):  # who only looks clears nothing
        ask(*words, "--results", store.files.uri)
        assert len(paths(store)) == 3
    assert "nothing to do" in ask("sweep", file, "--results", store.files.uri, "--executor", "inline")
    assert store.files.list() == [Store.path(cell.spec)]


# --- real runs, really killed ------------------------------------------------------------------------------------


def run_it(root: Path, asked: RunSpec, before: Callable[[], None] = lambda: None) -> None:
    """In a process of its own, as a worker does it."""
    torch.set_num_threads(1)
    before()
    store = PatientStore(root)
    with Lease(store.files, asked.run_id, owner=str(os.getpid())) as lease:
        assert lease.held
        execute(asked, store, lambda: register_blobs("small", 4, 2, 12), threads=1, on_step=lease.step)


def in_a_child(*arguments: Any) -> int:
    child = FORK.Process(target=run_it, args=arguments)
    child.start()
    child.join()
    assert child.exitcode is not None
    return child.exitcode


def dying_at(n: int, name: str) -> Callable[[], None]:
    """From now on the n-th call of a function of `os` is the last of its process."""

    def prepare() -> None:
        left, act = n, getattr(os, name)

        def last(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return act(*arguments, **named)

        setattr(os, name, last)

    return prepare


def assert_clean(root: Path, asked: RunSpec) -> None:
    assert in_a_child(root, asked) == 0
    store = Store(root)
    leftovers.tidy(store)
    assert store.files.list() == sorted([MARKER, Store.path(asked)])


@pytest.mark.parametrize("name", ["fsync", "replace", "scandir"])
def test_killed_at_any_write_a_run_leaves_nothing(tmp_path: Path, name: str) -> None:
    register_blobs("small", 4, 2, 12)
    asked = spec("finetune", "small", memory=0)
    for n in range(1, 100):
        root = tmp_path / str(n)
        PatientStore(root).files.mark()
        code = in_a_child(root, asked, dying_at(n, name))
        assert code in (0, -signal.SIGKILL)
        assert_clean(root, asked)
        if code == 0:
            break
    assert 3 < n < 99


@contextmanager
def busy_cores() -> Iterator[None]:
    burners = [FORK.Process(target=_burn, daemon=True) for _ in range(2 * (os.cpu_count() or 1))]
    for burner in burners:
        burner.start()
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.join()


def _burn() -> None:
    while True:
        sum(range(10000))


@pytest.mark.slow
def test_killed_at_random_instants_on_a_busy_machine_a_run_leaves_nothing(tmp_path: Path) -> None:
    register_blobs("small", 4, 2, 12)
    asked = spec("finetune", "small", memory=0)
    instants, killed = random.Random(0), 0
    with busy_cores():
        began = time.monotonic()
        PatientStore(tmp_path / "whole").files.mark()
        assert_clean(tmp_path / "whole", asked)
        usual = time.monotonic() - began
        for loop in range(20):
            root = tmp_path / str(loop)
            PatientStore(root).files.mark()
            for _ in range(3):
                child = FORK.Process(target=run_it, args=(root, asked))
                child.start()
                time.sleep(instants.uniform(0, usual))
                if child.is_alive():
                    child.kill()
                child.join()
                killed += child.exitcode == -signal.SIGKILL
                leftovers.tidy(Store(root))  # another driver, in between
            assert_clean(root, asked)
    print(f"{killed} kills", file=sys.stderr)
    assert killed > 20
