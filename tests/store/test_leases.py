from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from emi_bench.cli.app import app
from emi_bench.errors import UserError
from emi_bench.store import Store
from emi_bench.store.files import Files
from emi_bench.store.leases import Claim, ClaimLost, Claims, Lease
from emi_bench.store.pace import Pace
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


def soon(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)
    return holds()


def test_a_run_that_does_not_advance_loses_its_claim_and_keeps_it_once_it_does(tmp_path: Path) -> None:
    files = PatientFiles(tmp_path)
    files.mark()
    now = 0.0
    with Lease(files, RUN, owner="a", ttl=1.0, pace=Pace(clock=lambda: now)) as lease:
        lease.step()
        born = Claims(files).live()[RUN].heartbeat
        assert soon(lambda: Claims(files).live()[RUN].heartbeat > born)
        now = 1000.0  # the process lives, its run does not
        assert soon(lambda: RUN not in Claims(files).live())
        lease.step()  # nobody took it meanwhile
        assert soon(lambda: RUN in Claims(files).live())
        now = 1000 * Pace().limit
        assert soon(lambda: RUN not in Claims(files).live())
        assert Claims(files).acquire(RUN, owner="b") is not None
        lease.step()
        time.sleep(1)
        with pytest.raises(ClaimLost):
            lease.step()
    assert RUN in Claims(files).live()


def test_the_limit_of_a_step_follows_from_the_pace_of_the_run() -> None:
    now = 0.0
    pace = Pace(first=3600, least=900, clock=lambda: now)
    assert pace.limit == 3600
    for seconds, limit in ((1800, 36000), (10, 36000)):
        now += seconds
        assert not pace.stalled
        pace.finished()
        assert pace.limit == limit
    quick = Pace(clock=lambda: now)
    quick.finished()
    assert quick.limit == 900
    now += 901
    assert quick.stalled


class Counted(Files):
    """Every operation on a file or a folder is one."""

    operations = 0

    def _count(self) -> None:
        Counted.operations += 1

    def exists(self, path: str) -> bool:
        self._count()
        return super().exists(path)

    def read(self, path: str) -> bytes | None:
        self._count()
        return super().read(path)

    def tail(self, path: str, n: int) -> bytes:
        self._count()
        return super().tail(path, n)

    def write(self, path: str, content: bytes) -> None:
        self._count()
        super().write(path, content)

    def amend(self, path: str, change: Callable[[bytes], bytes]) -> bool:
        self._count()
        return super().amend(path, change)

    def _walk(self, folder: str, recursive: bool, hidden: bool) -> Iterator[str]:
        self._count()
        return super()._walk(folder, recursive, hidden)


def counted(act: Callable[[], object]) -> int:
    before = Counted.operations
    act()
    return Counted.operations - before


@pytest.mark.parametrize("n", [10, 100, 1000])
def test_a_heartbeat_touches_its_own_claim_and_its_successor_however_many_there_are(tmp_path: Path, n: int) -> None:
    claims = Claims(Counted(tmp_path))
    held = [claims.acquire(f"{i:064x}", owner="a") for i in range(n)]
    patch = pytest.MonkeyPatch()
    opened = []
    with patch.context() as at:  # an exists of pyarrow's is not the counted one: count it where it asks the system
        at.setattr(Files, "exists", lambda self, path: opened.append(path) or (tmp_path / path).exists())
        beats = counted(lambda: [claims.renew(claim) for claim in held if claim is not None])
    assert beats + len(opened) == 2 * n


@pytest.mark.parametrize("n", [10, 100, 1000])
def test_a_driver_that_waits_looks_at_folders_and_not_at_every_file_again(tmp_path: Path, n: int) -> None:
    files = Counted(tmp_path)
    store = Store(tmp_path, files)
    for i in range(n):
        store.claims.acquire(f"{i:064x}", owner="a")
        path = tmp_path / "digits" / f"method{i % 15}" / f"m10-s{i}-{i + n:064x}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"PAR1")

    def look() -> None:
        assert len(store.results()) == n
        assert len(store.claims.live()) == n

    assert counted(look) >= 2 * n
    folders = 3 + min(n, 15)  # the root, the data set, its methods, the claims
    assert counted(look) == folders
    (tmp_path / "digits" / "method0" / f"m10-s0-{'f' * 64}.parquet").write_bytes(b"PAR1")
    assert counted(store.results) == folders


def test_who_holds_a_run_that_a_person_takes_from_it_learns_at_its_next_step(tmp_path: Path) -> None:
    files = PatientFiles(tmp_path)
    files.mark()
    with Lease(files, RUN, owner="a", label="er digits", ttl=0.4) as lease:
        told = CliRunner().invoke(app, ["release", RUN[:9], "--results", str(tmp_path), "--dry-run"])
        assert "er digits, held by" in told.output
        assert RUN in Claims(files).live()
        assert CliRunner().invoke(app, ["release", RUN[:9], "--results", str(tmp_path)]).exit_code == 0
        assert Claims(files).live() == {}
        time.sleep(0.3)
        with pytest.raises(ClaimLost):
            lease.step()
    assert files.list("_claims") == []  # its heartbeat did not revive it


def test_claims_are_released_by_their_age_and_a_wrong_word_is_said(claims: Claims, tmp_path: Path) -> None:
    claim = claims.acquire(RUN, owner="a")
    assert claim is not None
    for words in ([], ["b" * 8], ["--older-than", "soon"], [RUN, "--older-than", "1h"]):
        refused = CliRunner().invoke(app, ["release", *words, "--results", str(tmp_path)])
        assert isinstance(refused.exception, UserError)
    CliRunner().invoke(app, ["release", "--older-than", "1h", "--results", str(tmp_path)])
    assert RUN in claims.live()
    rewrite(claims, replace(claim, started=time.time() - 3700))
    CliRunner().invoke(app, ["release", "--older-than", "1h", "--results", str(tmp_path)])
    assert claims.live() == {}


def test_a_late_holder_does_not_give_back_what_another_holds(claims: Claims) -> None:
    late = claims.acquire(RUN, owner="a")
    assert late is not None
    claims.release_all("a")
    assert claims.acquire(RUN, owner="b") is not None
    claims.release(late)
    assert RUN in claims.live()
