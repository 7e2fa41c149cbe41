"""What a report is about and how it is written: its options as a user gives them, and what they ask of the grid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from emi_bench.errors import UserError
from emi_bench.facts import built_in_facts
from emi_bench.registry import did_you_mean
from emi_bench.report.axes import FORGETTINGS, SPREADS, Spread
from emi_bench.report.planned import Planned, read_planned
from emi_bench.report.runs import Run
from emi_bench.report.written import OUTPUTS


@dataclass(frozen=True)
class Scope:
    """What of a store a report is about. Without anything: all of it, about EMI or the one method of the user's own.

    `planned`: the sweeps; their methods and memories have a row and a column also before they have run, and a complete
    cell has as many runs as its own sweeps ask for. Without sweeps these are the paper's ten in its own columns, else
    the most that any cell of the data set has.
    """

    planned: Planned = field(default_factory=Planned)
    methods: tuple[str, ...] = ()  #: none: all
    columns: tuple[tuple[str, frozenset[int]], ...] = ()  #: data set and memories, none of them: all
    ours: str = ""  #: the method whose row is last and which is compared with the others
    paper_grid: bool = False  #: the paper's rows and columns also where nothing ran or was planned

    def has_column(self, dataset: str, memory: int) -> bool:
        """Whether a column was asked for; runs without a memory (0) serve all columns of their data set."""
        fitting = [memories for d, memories in self.columns if d == dataset]
        return not self.columns or any(not m or not memory or memory in m for m in fitting)

    def has_method(self, method: str) -> bool:
        return not self.methods or method in self.methods

    def wants(self, run: Run) -> bool:
        at = self.has_method(run.row.method) and self.has_column(run.setting.dataset, run.setting.memory)
        return at and self.planned.wants(run)


def check_choice(kind: str, value: str, known: Iterable[str]) -> None:
    """Refuse an option that does not exist, with the list."""
    if value not in list(known):
        raise UserError(f"unknown {kind} '{value}'", hint=f"choose from {', '.join(known)}")


def columns_of(texts: Sequence[str]) -> tuple[tuple[str, frozenset[int]], ...]:
    """
    >>> columns_of(["cifar10:200,500", "digits"])
    (('cifar10', frozenset({200, 500})), ('digits', frozenset()))
    """
    out = []
    for text in texts:
        # A user's own data may have a colon in its name.
        dataset, colon, told = text.rpartition(":")
        sizes = [m.strip() for m in told.split(",")] if colon else []
        if colon and not all(m.isdigit() for m in sizes):
            raise UserError(f"'{text}' names no columns", hint="write DATASET:MEMORY,MEMORY or DATASET alone")
        out.append((dataset if colon else text, frozenset(map(int, sizes))))
    return tuple(out)


@dataclass(frozen=True)
class ReportOptions:
    """What a report is about and how it is written. An option that does not exist is refused here."""

    sweeps: Sequence[str | Path] = ()  #: sweep files that narrow the report; all runs without
    only: Sequence[str] = OUTPUTS
    spread: Spread = "std"
    forgetting: str = "paper"
    underline: bool = True  #: the second best in LaTeX
    ours: str = ""  #: the method the report is about
    methods: Sequence[str] = ()  #: rows; all without
    columns: Sequence[str] = ()  #: DATASET:MEMORY,...; all without
    paper_grid: bool = False  #: the paper's whole frame, dashes where nothing ran
    source: str = ""  #: what the page calls the store

    def __post_init__(self) -> None:
        for part in self.only:
            check_choice("part", part, OUTPUTS)
        check_choice("spread", self.spread, SPREADS)
        check_choice("forgetting", self.forgetting, FORGETTINGS)

    def scope(self, ran: Iterable[str]) -> Scope:
        """The same for the grid. `ran`: methods of the store; a name that neither it nor the package has is refused."""
        known = {*ran, *built_in_facts()}
        for name in [*self.methods, *([self.ours] if self.ours else [])]:
            if name not in known:
                raise UserError(f"no run is of a method '{name}'", hint=did_you_mean(name, known))
        methods = dict.fromkeys([*self.methods, *([self.ours] if self.ours and self.methods else [])])
        return Scope(read_planned(self.sweeps), tuple(methods), columns_of(self.columns), self.ours, self.paper_grid)
