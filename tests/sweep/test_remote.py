"""A bucket: fsspec's memory file system behind pyarrow and, where EMI_BENCH_TEST_S3 names one, one on a real server.

uvx --from 'moto[server]' moto_server -p 5055 &
export AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any
export EMI_BENCH_TEST_S3='s3://bench/tests?scheme=http&endpoint_override=127.0.0.1:5055&allow_bucket_creation=true'
"""

from __future__ import annotations

import json
import os
import threading
import uuid
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem

from emi_bench.run.loop import Progress, run
from emi_bench.store import leases as leases_module
from emi_bench.store.files import Files
from emi_bench.store.leases import Claims
from emi_bench.store.patient import PatientStore
from emi_bench.sweep.cell import run_cell
from emi_bench.sweep.check import read_sweep
from emi_bench.sweep.plan import expand, make_plan
from tests.sweep.sweeping import sweep_file
from tests.synthetic import few_digits as digits

RUN = "b" * 64


def in_memory(files: Files, name: str) -> None:
    files.remote = True
    files.fs = PyFileSystem(FSSpecHandler(fsspec.filesystem("memory")))
    files.base = f"/{name}/results"


def on_a_server() -> PatientStore:
    uri = os.environ.get("EMI_BENCH_TEST_S3")
    if not uri:
        pytest.skip("EMI_BENCH_TEST_S3 names no bucket")
    place, mark, options = uri.partition("?")
    fs, base = FileSystem.from_uri(uri)
    fs.create_dir(base.partition("/")[0])
    return PatientStore(f"{place}/{uuid.uuid4().hex}{mark}{options}", patience=1)


@pytest.fixture(params=["memory", "server"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> PatientStore:
    if request.param == "server":
        made = on_a_server()
    else:
        made = PatientStore(tmp_path, patience=1)
        in_memory(made.files, tmp_path.name)
    made.files.mark()
    return made


def test_a_sweep_plans_runs_and_finds_its_results_in_a_bucket(
    store: PatientStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases_module, "SETTLE", 0.01)
    cells, _ = expand(*read_sweep(sweep_file(tmp_path, methods="finetune", seeds=2, batch=10, images=20)))
    assert len(make_plan(cells, store).todo) == 2
    assert run_cell(cells[0].spec, store, digits, owner="a").state == "done"
    plan = make_plan(cells, store)
    assert (plan.done, plan.todo) == ([cells[0]], [cells[1]])
    assert store.files.list("_claims") == []


def test_a_run_whose_process_died_goes_on_from_its_checkpoint_in_the_bucket(
    store: PatientStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(at: Progress) -> None:
        if at.phase == 3:
            raise Killed

    monkeypatch.setattr(leases_module, "SETTLE", 0.01)
    cells, _ = expand(*read_sweep(sweep_file(tmp_path, methods="er", seeds=1, batch=10, images=20)))
    with pytest.raises(Killed):
        run_cell(cells[0].spec, store, digits, owner="a", on_progress=die)
    outcome = run_cell(cells[0].spec, store, digits, owner="b")
    assert (outcome.state, outcome.resumed_from) == ("done", 3)
    assert store.files.list("_checkpoints") == []
    content = store.files.read(store.path(cells[0].spec))
    assert content is not None
    told = pq.read_table(pa.BufferReader(content)).column("accuracy").to_numpy()
    undisturbed = run(cells[0].spec, digits()).matrix
    np.testing.assert_array_equal(told, undisturbed[np.tril_indices_from(undisturbed)])


def test_of_those_that_claim_in_a_bucket_at_once_the_last_writer_holds(
    store: PatientStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All have looked and found it free before any writes, and all have written before any reads back."""
    owners = ("a", "b", "c")
    looked, written = (threading.Barrier(len(owners), timeout=60) for _ in range(2))
    monkeypatch.setattr(leases_module, "SETTLE", 0.0)
    read, write, order = store.files.read, store.files.write, []
    one_at_a_time = threading.Lock()  # this memory hands all readers of a file the same cursor; a bucket does not

    def alone(path: str) -> bytes | None:
        with one_at_a_time:
            return read(path)

    def together(path: str, content: bytes) -> None:
        looked.wait()
        with one_at_a_time:
            write(path, content)
            order.append(json.loads(content)["owner"])
        written.wait()

    monkeypatch.setattr(store.files, "read", alone)
    monkeypatch.setattr(store.files, "write", together)
    got: dict[str, bool] = {}

    def claim(owner: str) -> None:
        got[owner] = Claims(store.files).acquire(RUN, owner=owner) is not None

    threads = [threading.Thread(target=claim, args=(o,)) for o in owners]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == {owner: owner == order[-1] for owner in owners}
