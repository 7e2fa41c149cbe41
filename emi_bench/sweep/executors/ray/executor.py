"""Ray Tune as an executor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from emi_bench.data.dataset import DataSet
from emi_bench.errors import UserError
from emi_bench.methods import get_method
from emi_bench.sweep.asked import Asked, cluster_of
from emi_bench.sweep.executors.protocol import Watch
from emi_bench.sweep.executors.ray import connection, loggers, nodes
from emi_bench.sweep.job import Job
from emi_bench.sweep.plan import Cell
from emi_bench.sweep.resources import Cluster, card_bytes, cores, this_machine


class RayExecutor:
    """One of our own on loopback, gone afterwards; or a cluster that is there."""

    at_most: int | None = None
    starting = 12.0  # on two cores; workers import torch meanwhile

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.address = cluster_of(asked.address)
        self._cluster: Cluster | None = None
        self._folder: str | None = None
        if asked.log is not None:
            loggers.check(asked.log, asked.results)

    def cluster(self) -> Cluster:
        if self._cluster is None:
            self._cluster = this_machine() if self.address is None else connection.join(self.address)
        return self._cluster

    def card_bytes(self) -> float:
        return card_bytes() if self.address is None else nodes.card_bytes()

    def start(self, runs: int) -> None:
        if self.address is None:
            # Not where there are cards: a worker had better learn which is its own before it imports torch.
            every_core = runs >= cores() and not torch.cuda.is_available()
            self._folder = connection.start(self.cluster().nodes[0], every_core=every_core)

    def share(self, data: DataSet) -> Any:
        from emi_bench.sweep.executors.ray import shared_data

        return shared_data.put(data)

    def run(self, job: Job, cells: Sequence[Cell], watch: Watch) -> None:
        """Methods of this package share workers; a plugin's may keep what it likes in its module, so they do not."""
        from emi_bench.sweep.executors.ray import tuning
        from emi_bench.sweep.executors.ray.private import plain_workers

        ours = [
            c  # a backbone may be a plugin's, under a method of this package
            for c in cells
            if not c.spec.plugin and get_method(c.spec.method).__module__.startswith("emi_bench.methods.")
        ]
        known = {c.run_id for c in ours}
        others = [c for c in cells if c.run_id not in known]
        try:
            with plain_workers(local=self.address is None):
                for some, reuse in ((ours, not job.fresh_process), (others, False)):
                    if some:
                        tuning.fit(job, some, watch, self.cluster(), reuse=reuse)
        except connection.lost_errors() as e:
            told = str(e).strip().partition("\n")[0][:200]
            raise UserError(
                f"lost the Ray cluster: {type(e).__name__}: {told}",
                hint="finished tasks are kept: the same command goes on from there",
            ) from e

    def close(self) -> None:
        connection.leave(self._folder)
