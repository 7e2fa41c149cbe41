"""The batch of an evaluation: processor time of an image by batch, against the one a run takes on this device.

    python -m benchmarks.evaluation                    (32x32, one thread)
    python -m benchmarks.evaluation --size 64 --device cuda

Batches take turns, so that other load on the machine meets all of them; the figure is the median of the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence

import torch

from benchmarks.steps import make_problem, warmed_up
from emi_bench.run.evaluation import eval_batch

BATCHES = (16, 32, 64, 128, 256, 512)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--width", type=int, default=20)
    parser.add_argument("--images", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    method, _, _ = warmed_up("er", make_problem(given.size, given.width, 200, 10, 64))
    method.to(given.device)
    x = torch.randint(0, 256, (given.images, 3, given.size, given.size), dtype=torch.uint8, device=given.device)
    seconds: dict[int, list[float]] = {batch: [] for batch in BATCHES}
    clock = time.process_time if given.device == "cpu" else time.perf_counter
    for _ in range(given.rounds):
        for batch in BATCHES:
            start = clock()
            torch.cat([method.predict(part) for part in torch.split(x, batch)]).cpu()
            seconds[batch].append(clock() - start)
    typical = {batch: statistics.median(times) for batch, times in seconds.items()}
    chosen = eval_batch(torch.device(given.device), given.size)
    for batch, taken in typical.items():
        mark = "  <- a run's" if batch == chosen else ""
        ms = 1000 * taken / given.images
        print(f"batch {batch:>3}: {ms:.3f} ms an image, {taken / typical[chosen]:.2f} of batch {chosen}{mark}")


if __name__ == "__main__":
    main()
