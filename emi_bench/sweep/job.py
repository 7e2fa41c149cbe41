"""What whoever runs cells is told once: the cells of a pass, and all that they need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from emi_bench.data.dataset import DataSet
from emi_bench.errors import UserError
from emi_bench.methods import load_plugin
from emi_bench.run.loop import Progress
from emi_bench.run.spec import RunSpec
from emi_bench.store.patient import PatientStore
from emi_bench.sweep.asked import Asked
from emi_bench.sweep.cell import give_up, run_cell
from emi_bench.sweep.outcome import Outcome
from emi_bench.sweep.resources import Request

_loaded: set[tuple[str, bytes]] = set()  #: plugins of this process


@dataclass(frozen=True)
class Job:
    """Of one pass."""

    asked: Asked
    sweep: str  #: its name
    results: str  #: the store, from wherever
    plugins: dict[str, bytes] = field(repr=False)  #: files by path; their content travels, so that no node needs them
    fresh_process: bool
    cells: dict[str, str] = field(repr=False)  #: run_id -> spec as JSON: cheap to ship in thousands
    requests: dict[str, Request] = field(repr=False)  #: by run_id
    data: dict[Any, Any] = field(repr=False)  #: `RunSpec.data_key` -> what the executor made of the data set

    def load_plugins(self) -> None:
        """Once in a process."""
        for path, content in self.plugins.items():
            if (path, content) not in _loaded:
                load_plugin(path, content)
                _loaded.add((path, content))

    def run(
        self,
        run_id: str,
        fetch: Callable[[Any], DataSet],
        on_progress: Callable[[Progress], None],
        on_wait: Callable[[OSError], None] = lambda why: None,
    ) -> Outcome:
        """Run a cell here and now; `fetch` makes a data set of what `data` holds."""
        store = PatientStore(self.results, self.asked.patience)
        store.files.on_wait = on_wait
        spec, request = RunSpec.model_validate_json(self.cells[run_id]), self.requests[run_id]

        def load() -> DataSet:
            if request.where == "cuda" and not torch.cuda.is_available():
                raise UserError(
                    "this run was given a card, but torch sees none",
                    hint="install a CUDA build of torch on this machine, or say `resources: {gpu: 0}`",
                )
            return fetch(self.data[spec.data_key])

        return run_cell(
            spec,
            store,
            load,
            prepare=self.load_plugins,
            owner=self.asked.owner,
            request=request,
            sweep=self.sweep,
            ttl=self.asked.claim_seconds,
            data_root=self.asked.data_root,
            on_progress=on_progress,
        )

    def give_up(self, run_id: str) -> Outcome:
        """A run that is far over its time: say so in its stead."""
        spec, store = RunSpec.model_validate_json(self.cells[run_id]), PatientStore(self.results, self.asked.patience)
        return give_up(spec, store, self.requests[run_id], self.sweep, self.asked.data_root)
