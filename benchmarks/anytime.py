"""What it costs to watch a run: processor time of a point of `protocol.anytime` against the steps between two points.

    python -m benchmarks.anytime                     (ER, CIFAR-10 shapes, the default of `protocol.anytime`)
    python -m benchmarks.anytime --classes 100 --tasks 10

The ratio is that of a whole run: a point after task t sees the classes of t tasks, on average (T+1)/2T of them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence

import torch

from benchmarks.steps import make_problem, warmed_up
from emi_bench.run.evaluation import eval_batch


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="er")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--tasks", type=int, default=5)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--per-class", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    method, x, y = warmed_up(given.method, make_problem(32, 20, 1000, 10, 64, given.classes))
    per_class = given.per_class or min(100, 2000 // given.classes)
    n = round(per_class * given.classes * (given.tasks + 1) / (2 * given.tasks))
    images = torch.randint(0, 256, (n, 3, 32, 32), dtype=torch.uint8)
    parts = torch.split(images, eval_batch(images.device, 32))

    def point() -> None:
        method.observe(x, y)  # methods with class means make them anew at each point
        start = time.process_time()
        for part in parts:
            method.predict(part)
        points.append(time.process_time() - start)

    points: list[float] = []
    steps = [_seconds(lambda: method.observe(x, y)) for _ in range(2)][1:]
    for _ in range(given.rounds):
        steps.append(_seconds(lambda: method.observe(x, y)))
        point()
    step, taken = statistics.median(steps), statistics.median(points)
    ratio = taken / (given.every * step)
    print(f"{given.method}: a step {1000 * step:.0f} ms, a point ({n} images) {1000 * taken:.0f} ms")
    print(f"a point every {given.every} steps costs {ratio:.2f} of the training")


def _seconds(do: Callable[[], object]) -> float:
    start = time.process_time()
    do()
    return time.process_time() - start


if __name__ == "__main__":
    main()
