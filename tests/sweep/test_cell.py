from __future__ import annotations

from pathlib import Path

import pytest
import torch

from emi_bench.data import load
from emi_bench.data.dataset import DataSet
from emi_bench.run.loop import Progress
from emi_bench.store.failures import Failures
from emi_bench.store.leases import Claims
from emi_bench.store.patient import PatientStore
from emi_bench.sweep.cell import run_cell
from emi_bench.sweep.resources import Request
from tests.synthetic import spec as make_spec

SPEC = make_spec("finetune", memory=0, batch=50)


@pytest.fixture
def store(tmp_path: Path) -> PatientStore:
    made = PatientStore(tmp_path / "results", patience=1)
    made.files.mark()
    return made


def digits() -> DataSet:
    return load("digits")


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
