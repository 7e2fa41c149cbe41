"""Time, memory and losses of a run, without a device synchronisation in every step."""

from __future__ import annotations

import contextlib
import math
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from emi_bench.run.host_memory import give_memory_back

WINDOW = 50  # steps between two looks at the device


class NonFiniteLoss(RuntimeError):
    """A loss became NaN or infinite."""


class StepTimer:
    """Milliseconds of every step: the clock on a CPU, events on a GPU (read only when collected)."""

    def __init__(self, device: str) -> None:
        self.cuda = device.startswith("cuda")
        self.done: list[float] = []
        self.pending: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

    @contextmanager
    def step(self) -> Iterator[None]:
        if self.cuda:
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            first.record()
            yield
            last.record()
            self.pending.append((first, last))
        else:
            start = time.perf_counter()
            yield
            self.done.append(1000 * (time.perf_counter() - start))

    def collect(self) -> list[float]:
        """All steps so far."""
        for first, last in self.pending:
            last.synchronize()
            self.done.append(first.elapsed_time(last))
        self.pending.clear()
        return self.done


class LossWindow:
    """Loss terms of many steps, looked at together: their means, and whether one was not finite."""

    def __init__(self, first_step: int = 0) -> None:
        self.step = first_step
        self.waiting: list[dict[str, Tensor]] = []
        self.sums: dict[str, float] = {}
        self.counts: dict[str, int] = {}

    def add(self, losses: dict[str, Tensor]) -> bool:
        """Take the losses of a step; True when a window was full and has been looked at."""
        self.waiting.append(losses)
        if len(self.waiting) < WINDOW:
            return False
        self.flush()
        return True

    def flush(self) -> None:
        terms = [value.detach().reshape(()) for losses in self.waiting for value in losses.values()]
        values = iter(torch.stack([t.double() for t in terms]).tolist() if terms else [])
        waiting, self.waiting = self.waiting, []
        for losses in waiting:
            self.step += 1
            step = {name: next(values) for name in losses}
            if not all(math.isfinite(v) for v in step.values()):
                told = ", ".join(f"{name}={v:.6g}" for name, v in step.items())
                raise NonFiniteLoss(f"the loss is not finite at step {self.step}: {told}")
            for name, v in step.items():
                self.sums[name] = self.sums.get(name, 0.0) + v
                self.counts[name] = self.counts.get(name, 0) + 1

    def means(self) -> dict[str, float]:
        """The mean of each term over the steps that had it."""
        return {name: total / self.counts[name] for name, total in self.sums.items()}


def peak_memory_bytes(device: str) -> int:
    """The allocator's peak on a GPU, the resident peak of the process on a CPU. `getrusage` counts that of the process
    which started this one too, so it is asked only where there is no /proc.
    """
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated(device)
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def reset_peak_memory(device: str) -> None:
    """Begin to count anew: a process may have had other runs before, and keep what they freed. Only Linux can do it for
    the resident peak.
    """
    give_memory_back()
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats(device)
        return
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
