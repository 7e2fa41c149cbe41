"""One run with its store: goes on from the last checkpoint, leaves the result, clears up after itself."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from emi_bench.data.dataset import DataSet
from emi_bench.errors import UserError
from emi_bench.run.checkpoint import Checkpoint, UnusableCheckpoint
from emi_bench.run.loop import Progress, run
from emi_bench.run.processor import check_precision
from emi_bench.run.result import RunResult
from emi_bench.run.spec import RunSpec
from emi_bench.store import Store
from emi_bench.store.checkpoints import drop_checkpoint, load_checkpoint, reject_checkpoint, save_checkpoint


@dataclass(frozen=True)
class Executed:
    """`result` is None where the store held the run already."""

    path: str
    result: RunResult | None
    resumed_from: int = 0  #: phases that an earlier sitting had finished


def execute(
    spec: RunSpec,
    store: Store,
    load: Callable[[], DataSet],
    *,
    device: str = "cpu",
    threads: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_start: Callable[[int], None] | None = None,
    on_step: Callable[[], None] = lambda: None,
) -> Executed:
    """Bring the run into the store. Does nothing if it is there; `load` is called only if it is not.

    `on_step` is called after the load and after every step of an optimiser, also of those inside a task's end.
    """
    if store.done(spec):
        found = store.find(spec)
        assert found is not None
        return Executed(store.files.full(found), None)
    check_precision(spec.protocol.precision, device)
    store.files.check_writable()
    data = load()
    on_step()
    resume = load_checkpoint(store, spec.run_id)
    make_repeatable()

    def go(resume: Checkpoint | None) -> RunResult:
        torch.set_num_threads(_threads(threads, resume))
        if on_start is not None:
            on_start(resume.state.phase if resume else 0)
        keep = partial(save_checkpoint, store)
        return run(spec, data, device=device, resume=resume, on_checkpoint=keep, on_progress=on_progress)

    steps = register_optimizer_step_post_hook(lambda *args: on_step())
    try:
        result = go(resume)
    except UnusableCheckpoint as e:
        reject_checkpoint(store, spec.run_id, str(e))
        resume = None
        result = go(None)
    finally:
        steps.remove()
    path = store.write(result)
    drop_checkpoint(store, spec.run_id)
    return Executed(path, result, resume.state.phase if resume else 0)


def _threads(asked: int | None, resume: Checkpoint | None) -> int:
    """Those asked for; a run that goes on keeps the number it began with, without which it is not bit-identical."""
    wanted = asked or int(os.environ.get("OMP_NUM_THREADS", "1"))
    if resume is None or resume.threads == wanted:
        return wanted
    began = resume.threads
    told = f"the run goes on with {began} torch threads, as it began, not {wanted}: sums come out the same only so"
    warnings.warn(told, stacklevel=3)
    return began


def choose_device(asked: str | None = None) -> str:
    """`cuda` where there is one, unless told; an absent GPU is refused."""
    if asked is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    if asked.startswith("cuda") and not torch.cuda.is_available():
        raise UserError("no CUDA device is visible to torch", hint="use --device cpu, or see `emi-bench doctor`")
    try:
        torch.device(asked)
    except RuntimeError as e:
        raise UserError(f"'{asked}' is not a device", hint="--device takes cpu, cuda or cuda:N") from e
    return asked


def make_repeatable() -> None:
    """What repeats a run bit for bit on one device: no cuDNN search for algorithms, only deterministic ones."""
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
