"""SSD against its bare network passes, over one cycle: six steps, of which the first is followed by a summarise event.

    python -m benchmarks.ssd --pairs 3
    python -m benchmarks.ssd --classes 10 --tasks 5          (CIFAR-10: 2 classes a task, 100 images a class)

The bare passes are those of the learner (two batches a step), of the helper (two chunks a step) and of the event: a
forward and backward of the queue, and for the summaries a backward that is itself differentiated. Times are those of
the processor, one thread. Operations are counted on 8x8 images: there are as many of them at every size.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.steps import OpCounter
from emi_bench.draws import Draws
from emi_bench.methods.ssd import SSD, SSDConfig
from emi_bench.problem import Problem

CYCLE = 6


def stream(problem: Problem, task: int, batches: int, rng: torch.Generator) -> list[tuple[Tensor, Tensor]]:
    per = problem.task_sizes[0]
    shape = (problem.batch, *problem.image_shape)
    y = torch.arange(problem.batch) % per + task * per
    return [(torch.randint(0, 256, shape, generator=rng, dtype=torch.uint8), y) for _ in range(batches)]


def warmed_up(problem: Problem) -> SSD:
    """In the second task, memory full, queue full, an event due at the next step."""
    method = SSD.build(SSDConfig(), problem, weight_seed=0, draws=Draws(0)).train()
    rng = torch.Generator().manual_seed(0)
    for task in (0, 1):
        if task == 1:
            method.end_task()
            method.task = method.start_task()
        for x, y in stream(problem, task, 3 * problem.memory // problem.batch, rng):
            method.note_classes(y)
            method.memory.update(x, y, method.draws)
            if method.task is not None:
                method.task.queue.append((method.pixels(x), y.tolist()))
    return method


def backward(net: nn.Module, x: Tensor) -> None:
    net(x).sum().backward()


def bare(method: SSD, raw: Tensor, chunk: Tensor, queue: list[Tensor], summaries: Tensor, past: Tensor) -> None:
    """The passes of one cycle."""
    assert method.task is not None
    helper = method.task.helper
    for _ in range(CYCLE):
        for _ in range(2):
            backward(method.net, raw)
            backward(helper, chunk)
    kernels = [p for p in helper.parameters() if p.dim() == 4]
    for real in queue:
        torch.autograd.grad(helper(real).sum(), kernels)
        with torch.no_grad():
            helper(past)
        x = summaries.detach().requires_grad_()
        loss = F.cross_entropy(helper(x), torch.zeros(len(x), dtype=torch.int64))
        grads = torch.autograd.grad(loss, kernels, create_graph=True)
        torch.autograd.grad(torch.stack([g.square().sum() for g in grads]).sum(), x)


class Cycle:
    """Six steps in the second task and the bare passes of the same size, of one problem."""

    def __init__(self, problem: Problem) -> None:
        self.method = warmed_up(problem)
        assert self.method.task is not None
        images = self.method.pixels(torch.rand(problem.batch + problem.replay_batch, *problem.image_shape))
        per = problem.task_sizes[0]
        summaries = self.method.pixels(torch.rand(problem.memory // problem.n_classes, *problem.image_shape))
        self.inputs = images, images[:10], self.method.task.real(list(range(per, 2 * per))), summaries, images[:10]
        self.steps = stream(problem, 1, CYCLE, torch.Generator().manual_seed(1))

    def bare(self) -> None:
        bare(self.method, *self.inputs)

    def observe(self) -> None:
        assert self.method.task is not None
        self.method.task.iteration = 11 * CYCLE
        events = ["match" in self.method.observe(x, y) for x, y in self.steps]
        assert events == [True] + [False] * (CYCLE - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--memory", type=int, default=1000)
    args = parser.parse_args()
    torch.set_num_threads(1)

    small = Cycle(Problem("digits", args.classes, args.tasks, 8, args.memory, width=8))
    with OpCounter() as bare_ops:
        small.bare()
    with OpCounter() as step_ops:
        small.observe()
    cycle = Cycle(Problem("cifar", args.classes, args.tasks, 32, args.memory))
    cycle.bare()
    ratios, seconds = [], []
    for _ in range(args.pairs):
        start = time.process_time()
        cycle.bare()
        middle = time.process_time()
        cycle.observe()
        ratios.append((time.process_time() - middle) / (middle - start))
        seconds.append(middle - start)
    print(f"ssd, {args.classes} classes in {args.tasks} tasks, M={args.memory}, 32x32, one thread, {args.pairs} pairs")
    print(f"bare {1000 * statistics.median(seconds) / CYCLE:.1f} ms a step, ratio {statistics.median(ratios):.3f}")
    print(f"operations in {CYCLE} steps {step_ops.n}, bare {bare_ops.n}, ratio {step_ops.n / bare_ops.n:.2f}")


if __name__ == "__main__":
    main()
