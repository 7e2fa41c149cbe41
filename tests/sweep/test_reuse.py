"""A worker that has had other runs gives the same numbers as a new one."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import torch

from emi_bench.run.loop import run
from emi_bench.run.measure import peak_memory_bytes, reset_peak_memory
from emi_bench.sweep.executors.ray.shared_data import _tensor
from tests.synthetic import few_digits, spec


def in_thread(method: str, seed: int = 0) -> np.ndarray:
    """As a worker does it: each run in a thread of its own."""
    found: list[np.ndarray] = []

    def work() -> None:
        torch.set_num_threads(1)
        found.append(run(spec(method, seed=seed, batch=20), few_digits()).matrix)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found[0]


def test_a_run_after_others_in_one_process_is_bit_identical_and_leaves_the_global_generator_alone() -> None:
    alone = in_thread("er")
    state = torch.random.get_rng_state()
    for method in ("emi", "mir", "onpro", "scr"):
        in_thread(method, seed=1)
    assert torch.equal(torch.random.get_rng_state(), state)
    np.testing.assert_array_equal(in_thread("er"), alone)


def test_the_peak_of_a_run_is_not_that_of_an_earlier_one() -> None:
    big = np.ones(40_000_000)
    before = peak_memory_bytes("cpu")
    del big
    reset_peak_memory("cpu")
    assert peak_memory_bytes("cpu") < before - 200_000_000


def test_read_only_arrays_become_tensors_without_a_copy_or_a_warning() -> None:
    array = np.arange(6)
    array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tensor = _tensor(array)
    assert tensor.data_ptr() == array.ctypes.data
