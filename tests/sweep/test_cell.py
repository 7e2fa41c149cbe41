from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from emi_bench import methods
from emi_bench.data.dataset import DataSet
from emi_bench.errors import UserError
from emi_bench.run.loop import Progress
from emi_bench.run.spec import RunSpec
from emi_bench.store.failures import Failures
from emi_bench.store.leases import Claims
from emi_bench.store.patient import PatientStore
from emi_bench.sweep import cell
from emi_bench.sweep.asked import Asked
from emi_bench.sweep.cell import run_cell
from emi_bench.sweep.job import Job
from emi_bench.sweep.logs import RunLog, find_run, read_log
from emi_bench.sweep.resources import Request
from tests.synthetic import few_digits as digits
from tests.synthetic import spec as make_spec

SPEC = make_spec("finetune", memory=0, batch=50)


@pytest.fixture
def store(tmp_path: Path) -> PatientStore:
    made = PatientStore(tmp_path / "results", patience=1)
    made.files.mark()
    return made


def broken() -> DataSet:
    raise ValueError("the data\nbroke")


def full_card() -> DataSet:
    raise torch.OutOfMemoryError("CUDA out of memory")


def test_a_cell_is_run_once_and_then_found(store: PatientStore) -> None:
    told: list[Progress] = []
    done = run_cell(SPEC, store, digits, owner="a", on_progress=told.append)
    assert done.state == "done"
    assert done.accuracy == pytest.approx(told[-1].accuracy)
    assert run_cell(SPEC, store, broken, owner="b").state == "present"
    assert store.files.list("_claims") == []


def test_a_cell_that_another_holds_is_left_alone(store: PatientStore) -> None:
    assert Claims(store.files).acquire(SPEC.run_id, owner="another") is not None
    assert run_cell(SPEC, store, broken, owner="a").state == "held"
    assert Failures(store.files).all() == {}


def test_a_failure_is_recorded_counted_and_forgotten_after_success(store: PatientStore) -> None:
    assert run_cell(SPEC, store, broken, owner="a").state == "failed"
    assert run_cell(SPEC, store, broken, owner="a", sweep="mine").error == "ValueError: the data broke"
    failure = Failures(store.files).all()[SPEC.run_id]
    assert (failure.count, failure.sweep) == (2, "mine")
    assert "in broken" in failure.traceback
    assert failure.command.startswith("emi-bench run --method finetune --dataset digits")
    assert failure.command.endswith(f"--results {store.files.uri} --device cpu")
    assert run_cell(SPEC, store, digits, owner="a").state == "done"
    assert Failures(store.files).all() == {}


def test_out_of_memory_is_a_failure_only_of_a_run_that_was_alone(store: PatientStore) -> None:
    assert run_cell(SPEC, store, full_card, owner="a", request=Request(gpu=0.5)).state == "out_of_memory"
    assert Failures(store.files).all() == {}
    assert run_cell(SPEC, store, full_card, owner="a", request=Request(gpu=1.0)).state == "failed"


def test_another_version_of_a_method_on_a_worker_is_refused(store: PatientStore) -> None:
    planned = SPEC.model_copy(update={"method_version": 99})
    assert "version" in run_cell(planned, store, digits, owner="a").error


def test_a_run_over_its_time_fails_and_keeps_its_finished_tasks(
    store: PatientStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first step after the limit ends it; given again without one it goes on."""
    late = 0.0

    def progress(at: Progress) -> None:
        nonlocal late
        late = 7200.0 * (at.phase == 2)

    monkeypatch.setattr(cell, "time", SimpleNamespace(perf_counter=lambda: time.perf_counter() + late))
    outcome = run_cell(SPEC, store, digits, owner="a", request=Request(time=3600.0), on_progress=progress)
    assert (outcome.state, outcome.error) == ("failed", "the run took longer than 1 h 00 min, its limit")
    assert Failures(store.files).all()[SPEC.run_id].error == outcome.error
    assert run_cell(SPEC, store, digits, owner="a").resumed_from == 2


def test_a_run_that_does_not_answer_is_given_up_by_its_worker(store: PatientStore) -> None:
    sent = job(store, b"", method="finetune", time=3600.0)
    (run_id,) = sent.cells
    assert "did not answer" in sent.give_up(run_id).error
    assert "longer than 1 h 00 min" in Failures(store.files).all()[run_id].error


def test_the_log_of_a_run_has_its_tasks_its_output_and_every_sitting(
    store: PatientStore, capsys: pytest.CaptureFixture[str]
) -> None:
    def talk() -> DataSet:
        print("the method says this")
        print("and warns of that", file=sys.stderr)
        return digits()

    run_cell(SPEC, store, broken, owner="a")
    run_cell(SPEC, store, talk, owner="a")
    assert "the method says this" in capsys.readouterr().out  # it goes where it went
    told = read_log(store.files, find_run(store.files, SPEC.run_id[:8]))
    assert told.index("failed after 0 s: ValueError: the data broke") < told.index("the method says this")
    assert "and warns of that" in told
    assert f"{SPEC.label} on cpu, 1 threads" in told
    assert "task 5/5 done, accuracy" in told
    assert told.endswith("done in 0 s\n") or "done in" in told.splitlines()[-1]
    before = told
    run_cell(SPEC, store, broken, owner="a")
    assert read_log(store.files, SPEC.run_id) == before  # nothing happened
    with pytest.raises(UserError, match="no run has a log"):
        find_run(store.files, "zz")


def test_a_log_is_bounded_and_never_costs_a_run(store: PatientStore, tmp_path: Path) -> None:
    log = RunLog(store.files.uri, "a" * 64)
    for _ in range(3):
        log.add("x" * 50_000 + "\n")
    log.save()
    assert len(read_log(store.files, "a" * 64)) == 64_000
    gone = RunLog(str(tmp_path / "gone"), "b" * 64)
    gone.add("lost")
    gone.save()


PLUGIN = b"""
from emi_bench.methods.finetune import FineTune

class Far(FineTune):
    name = "far"

    def observe(self, x, y):
        raise ValueError("here")
"""


def job(store: PatientStore, plugin: bytes, method: str = "far", time: float | None = None) -> Job:
    spec = RunSpec.model_validate(SPEC.model_dump() | {"method": method})
    cells, requests = {spec.run_id: spec.model_dump_json()}, {spec.run_id: Request(time=time)}
    asked = Asked(Path("none.yaml"), patience=1)
    return Job(asked, "mine", store.files.uri, {"/not/here.py": plugin}, False, cells, requests, {spec.data_key: None})


def test_a_plugin_comes_with_the_job_and_its_traceback_shows_its_lines(
    store: PatientStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "_plugins", {})
    sent = job(store, PLUGIN)
    (run_id,) = sent.cells
    assert sent.run(run_id, lambda data: digits(), lambda at: None).error == "ValueError: here"
    trace = Failures(store.files).all()[run_id].traceback
    assert 'File "/not/here.py", line 8, in observe' in trace
    assert 'raise ValueError("here")' in trace


def test_a_plugin_that_a_worker_cannot_import_is_told_as_it_is(store: PatientStore) -> None:
    sent = job(store, b"import a_package_that_only_the_driver_has\n")
    (run_id,) = sent.cells
    outcome = sent.run(run_id, lambda data: digits(), lambda at: None)
    assert outcome.state == "failed"
    assert "does not import: ModuleNotFoundError: No module named 'a_package_that_only_the_driver_has'" in outcome.error
    assert Failures(store.files).all()[run_id].error == outcome.error
