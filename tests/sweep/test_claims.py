from __future__ import annotations

import multiprocessing
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from emi_bench.store.files import Files
from emi_bench.store.leases import Claim, ClaimLost, Claims, Lease
from emi_bench.store.patient import PatientFiles

RUN = "a" * 64


@pytest.fixture
def claims(tmp_path: Path) -> Claims:
    return Claims(Files(tmp_path), ttl=30)


def rewrite(claims: Claims, claim: Claim) -> None:
    import json
    from dataclasses import asdict

    claims.files.write(claim.path, json.dumps(asdict(claim)).encode())


def test_a_claim_is_given_to_one(claims: Claims) -> None:
    first = claims.acquire(RUN, owner="a")
    assert first is not None
    assert claims.acquire(RUN, owner="b") is None
    claims.release(first)
    assert claims.acquire(RUN, owner="b") is not None


def _race(root: str, gate: str, answers: multiprocessing.Queue[bool]) -> None:
    claims = Claims(Files(root))
    while not Path(gate).exists():
        pass
    answers.put(claims.acquire(RUN, owner=str(os.getpid())) is not None)
    time.sleep(3)  # alive until all have asked


def test_of_many_processes_that_ask_at_once_one_gets_it(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    answers: multiprocessing.Queue[bool] = context.Queue()
    gate = tmp_path / "gate"
    processes = [context.Process(target=_race, args=(str(tmp_path / "r"), str(gate), answers)) for _ in range(8)]
    for p in processes:
        p.start()
    time.sleep(0.3)
    gate.touch()
    got = [answers.get(timeout=60) for _ in processes]
    for p in processes:
        p.join()
    assert sum(got) == 1


def test_a_claim_without_heartbeat_is_taken_over_once_and_its_holder_learns_of_it(claims: Claims) -> None:
    old = claims.acquire(RUN, owner="a")
    assert old is not None
    rewrite(claims, replace(old, heartbeat=time.time() - 31))
    taken = claims.acquire(RUN, owner="b")
    assert taken is not None
    assert claims.acquire(RUN, owner="c") is None
    with pytest.raises(ClaimLost):
        claims.renew(old)
    claims.renew(taken)
    claims.release(taken)
    assert claims.files.list("_claims") == []


def test_a_claim_of_a_dead_process_is_free_at_once(claims: Claims) -> None:
    claim = claims.acquire(RUN, owner="a")
    assert claim is not None
    child = multiprocessing.get_context("fork").Process(target=int)
    child.start()
    child.join()
    assert child.pid is not None
    rewrite(claims, replace(claim, pid=child.pid))
    assert RUN not in claims.live()
    rewrite(claims, replace(claim, pid=child.pid, host="elsewhere"))
    assert RUN in claims.live()


def test_a_sweep_takes_back_what_its_lost_worker_held(claims: Claims) -> None:
    assert claims.acquire(RUN, owner="a") is not None
    assert claims.acquire(RUN, owner="a") is not None


def test_a_claim_cut_short_counts_from_its_birth(claims: Claims, tmp_path: Path) -> None:
    path = tmp_path / "_claims" / f"{RUN}.1"
    path.parent.mkdir()
    path.write_bytes(b"")
    assert RUN in claims.live()
    os.utime(path, (time.time() - 100, time.time() - 100))
    assert claims.acquire(RUN, owner="b") is not None


def test_a_lease_beats_and_tells_progress(tmp_path: Path) -> None:
    files = PatientFiles(tmp_path)
    files.mark()
    with Lease(files, RUN, owner="a", ttl=0.4) as lease:
        assert lease.held
        lease.tell(2, 5, 0.5)
        time.sleep(1.0)
        claim = Claims(files, ttl=0.4).live()[RUN]
        assert (claim.phase, claim.n_phases, claim.accuracy) == (2, 5, 0.5)
        with Lease(files, RUN, owner="b", ttl=0.4) as other:
            assert not other.held
    assert Claims(files).live() == {}


def test_a_holder_stops_when_its_run_was_taken_over(tmp_path: Path) -> None:
    files = PatientFiles(tmp_path)
    files.mark()
    with Lease(files, RUN, owner="a", ttl=0.4) as lease:
        claims = Claims(files)
        files.write(f"_claims/{RUN}.2", claims.files.read(f"_claims/{RUN}.1") or b"")
        time.sleep(0.5)
        with pytest.raises(ClaimLost):
            lease.tell(1, 5, None)
    assert files.exists(f"_claims/{RUN}.2")


def test_a_late_holder_does_not_give_back_what_another_holds(claims: Claims) -> None:
    late = claims.acquire(RUN, owner="a")
    assert late is not None
    claims.release_all("a")
    assert claims.acquire(RUN, owner="b") is not None
    claims.release(late)
    assert RUN in claims.live()
