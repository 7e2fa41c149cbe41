"""Further sections of the page, in order: each a function of the evidence, or None where it has nothing to say."""

from __future__ import annotations

from collections.abc import Callable

from emi_bench.report.evidence import Evidence
from emi_bench.report.model import Section
from emi_bench.report.proxy import proxy_section
from emi_bench.report.watched import equal_compute, while_the_stream_runs

SECTIONS: list[Callable[[Evidence], Section | None]] = [proxy_section, while_the_stream_runs, equal_compute]
