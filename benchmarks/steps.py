"""A method's step against its bare network passes: time and dispatched operations.

    python -m benchmarks.steps er mir --pairs 7
    python -m benchmarks.steps emi --pairs 2
    python -m benchmarks.steps emi --size 8 --width 8      (digits)

Each pair times the bare passes and one `observe` one after the other, on the same network and images of the same size;
the figure is the median ratio of processor time (one thread: other load on the machine does not count). Operations are
what a GPU would have to launch, in a step that is not the first (which also makes the optimiser's state): everything
that reaches the dispatcher, but views, marks of the profiler, and the optimiser's look at its own counts of steps,
which torch keeps on the host.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.passes import PASSES, Pass
from emi_bench.draws import Draws
from emi_bench.methods import Method, get_method
from emi_bench.problem import Problem

NO_LAUNCH = {"_record_function_enter_new", "_record_function_exit"}


class OpCounter(TorchDispatchMode):
    """Counts dispatched operations that are not views."""

    def __init__(self, optimizer: torch.optim.Optimizer | None = None) -> None:
        super().__init__()
        self.n = 0
        self.state = optimizer.state if optimizer else {}

    def on_host(self, func: Any, args: Any) -> bool:
        """Whether it only reads a count of steps."""
        if func.overloadpacket.__name__ != "_local_scalar_dense":
            return False
        return any(args[0] is state.get("step") for state in self.state.values())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        returns = func._schema.returns
        view = any(r.alias_info is not None and not r.alias_info.is_write for r in returns)
        self.n += not (view or func.overloadpacket.__name__ in NO_LAUNCH or self.on_host(func, args))
        return func(*args, **(kwargs or {}))


def make_problem(size: int, width: int, memory: int, batch: int, replay: int, classes: int = 10) -> Problem:
    name = "digits" if size == 8 else "cifar10"
    return Problem(name, classes, 5, size, memory, batch=batch, replay_batch=replay, width=width)


def warmed_up(name: str, problem: Problem) -> tuple[Method, Tensor, Tensor]:
    """The method in its second task with a full memory, and a stream batch."""
    cls = get_method(name)
    method = cls.build(cls.config_class(), problem, weight_seed=0, draws=Draws(0))
    method.train()
    rng = torch.Generator().manual_seed(0)
    shape = problem.image_shape

    def images(n: int) -> Tensor:
        return torch.randint(0, 256, (n, *shape), generator=rng, dtype=torch.uint8)

    if method.memory.size:
        old = torch.arange(method.memory.size) % problem.n_classes
        method.note_classes(old)
        method.memory.write(range(method.memory.size), images(method.memory.size), old)
        method.memory.n_seen = 4 * method.memory.size
    method.end_task()
    return method, images(problem.batch), torch.arange(problem.batch) % problem.task_sizes[0]


def bare(method: Method, passes: list[Pass], inputs: list[Tensor]) -> None:
    method.zero_grad(set_to_none=True)
    for one, x in zip(passes, inputs, strict=True):
        with torch.set_grad_enabled(one.backward):
            out = method.net(x)
        if one.backward:
            out.sum().backward()


def measure(name: str, problem: Problem, pairs: int) -> dict[str, float]:
    """Median ratio of a step to its bare passes, in time and in operations."""
    method, x, y = warmed_up(name, problem)
    passes = PASSES[name](problem)
    inputs = [method.pixels(torch.randint(0, 256, (p.images, *problem.image_shape), dtype=torch.uint8)) for p in passes]
    method.observe(x, y)
    with OpCounter(method.optimizer) as bare_ops:
        bare(method, passes, inputs)
    with OpCounter(method.optimizer) as step_ops:
        method.observe(x, y)
    ratios, bare_ms = [], []
    for _ in range(pairs):
        start = time.process_time()
        bare(method, passes, inputs)
        middle = time.process_time()
        method.observe(x, y)
        ratios.append((time.process_time() - middle) / (middle - start))
        bare_ms.append(1000 * (middle - start))
    return {
        "bare_ms": statistics.median(bare_ms),
        "ratio": statistics.median(ratios),
        "bare_ops": bare_ops.n,
        "step_ops": step_ops.n,
        "ops_ratio": step_ops.n / bare_ops.n,
    }


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", help="default: all with known passes")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--width", type=int, default=20)
    parser.add_argument("--memory", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--replay", type=int, default=64)
    args = parser.parse_args(words)
    if unknown := [name for name in args.methods if name not in PASSES]:
        known = f"known are {', '.join(PASSES)}; SSD, with its cycles of six steps, has `python -m benchmarks.ssd`"
        parser.error(f"no count of bare passes for {', '.join(unknown)}: {known}")
    torch.set_num_threads(1)
    problem = make_problem(args.size, args.width, args.memory, args.batch, args.replay)
    print(f"step / bare passes, {args.size}x{args.size}, width {args.width}, one thread, {args.pairs} pairs")
    print(f"{'method':10} {'bare ms':>9} {'time ratio':>11} {'bare ops':>9} {'step ops':>9} {'ops ratio':>10}")
    for name in args.methods or PASSES:
        m = measure(name, problem, args.pairs)
        print(
            f"{name:10} {m['bare_ms']:9.1f} {m['ratio']:11.3f} {m['bare_ops']:9.0f} {m['step_ops']:9.0f} "
            f"{m['ops_ratio']:10.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
