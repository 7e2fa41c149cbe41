"""A checkpoint comes back as it was, or is refused with a reason; a run is never stuck with one."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from emi_bench.run.checkpoint import FORMAT, Checkpoint, State, UnusableCheckpoint, about_checkpoint
from emi_bench.run.execute import execute
from emi_bench.run.loop import Progress, run
from emi_bench.store import DamagedFile, Store
from emi_bench.store.checkpoints import finished_phases, load_checkpoint, save_checkpoint
from tests.synthetic import few_digits, spec

RUN = "cd" * 32


def made_up() -> Checkpoint:
    weights = torch.linspace(0, 1, 500)
    return Checkpoint(RUN, 2, {"net.weight": weights}, State(phase=2, matrix=[[0.5], [0.25, 1 / 3]]), features=True)


def old_file(**content: Any) -> bytes:
    out = io.BytesIO()
    torch.save(content, out)
    return out.getvalue()


def test_it_comes_back_and_says_what_it_is_without_torch(tmp_path: Path) -> None:
    store, kept = Store(tmp_path), made_up()
    assert load_checkpoint(store, RUN) is None
    save_checkpoint(store, kept)
    found = load_checkpoint(store, RUN)
    assert found is not None
    assert (found.run_id, found.threads, found.state, found.features) == (RUN, 2, kept.state, True)
    assert torch.equal(found.method["net.weight"], kept.method["net.weight"])
    assert about_checkpoint(kept.encode()) == {"run_id": RUN, "features": True, "anytime": False, "phase": 2}
    assert finished_phases(store, RUN) == 2


def test_every_changed_bit_is_noticed() -> None:
    content = made_up().encode()
    rng = np.random.default_rng(0)
    for bit in rng.choice(8 * len(content), 600, replace=False).tolist():
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(UnusableCheckpoint):
            Checkpoint.decode(bytes(damaged))


BROKEN = {
    "cut short": (made_up().encode()[:200], "checksum"),
    "not one at all": (b"PAR1", "no checkpoint"),
    "without a format": (old_file(run_id=RUN, state={}), "names no format"),
    "of a format to come": (made_up().encode().replace(b" %d " % FORMAT, b" 9 ", 1), "format is 9"),
    "of an unknown old format": (old_file(format=0), "format is 0"),
    "of format 1, with something missing": (old_file(format=1, run_id=RUN, threads=1, method={}), "lacks"),
    "of another run": (Checkpoint("ab" * 32, 1, {}, State()).encode(), "not of cdcd"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_one_that_cannot_be_used_is_named_set_aside_and_gone_at_the_next_try(tmp_path: Path, kind: str) -> None:
    content, why = BROKEN[kind]
    store = Store(tmp_path)
    store.put(f"_checkpoints/{RUN}.pt", content)
    if kind != "of another run":
        assert finished_phases(store, RUN) == 0  # who only looks leaves it
    assert (tmp_path / "_checkpoints" / f"{RUN}.pt").exists()
    with pytest.warns(DamagedFile, match=f"{why}.*starts anew"):
        assert load_checkpoint(store, RUN) is None
    assert (tmp_path / "_damaged" / f"_checkpoints__{RUN}.pt").exists()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_checkpoint(store, RUN) is None


def test_a_dict_of_format_1_still_goes_on(tmp_path: Path) -> None:
    kept = made_up()
    state = {"phase": 2, "matrix": [[0.5], [0.25, 1 / 3]]}
    old = old_file(format=1, run_id=RUN, threads=2, method=kept.method, state=state)
    found = Checkpoint.decode(old)
    assert (found.run_id, found.threads, found.state) == (RUN, 2, kept.state)


class Stopped(Exception):
    pass


def test_a_run_whose_method_changed_since_starts_anew_and_ends_as_if_undisturbed(tmp_path: Path) -> None:
    asked, store = spec("finetune"), Store(tmp_path)

    def stop(at: Progress) -> None:
        if at.phase == 2:
            raise Stopped

    with pytest.raises(Stopped):
        execute(asked, store, few_digits, on_progress=stop)
    kept = load_checkpoint(store, asked.run_id)
    assert kept is not None
    odd = Checkpoint(kept.run_id, kept.threads, kept.method | {"a weight of yesterday": torch.ones(1)}, kept.state)
    save_checkpoint(store, odd)
    began: list[int] = []
    with pytest.warns(DamagedFile, match=r"does not fit the method.*starts anew"):
        done = execute(asked, store, few_digits, on_start=began.append)
    assert began[-1] == 0
    assert done.result is not None
    np.testing.assert_array_equal(done.result.matrix, run(asked, few_digits()).matrix)
    assert not list((tmp_path / "_checkpoints").iterdir())
