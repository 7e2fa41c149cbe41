"""Captions: what the numbers are, what the ± is, how many runs, what the marks mean. LaTeX and plain alike."""

from __future__ import annotations

from collections.abc import Iterable

from emi_bench.report.axes import SPREADS, Metric, Setting, Spread, odd_protocol
from emi_bench.report.cells import Summary
from emi_bench.report.latex import escape
from emi_bench.report.model import Text


def counts(summaries: Iterable[Summary]) -> str:
    """How many runs stand behind the numbers.

    >>> counts([Summary(1, 1, 10, 10), Summary(1, 1, 7, 10)])
    'n = 7 to 10 runs a cell; † marks a cell with fewer runs than planned.'
    """
    ns = sorted({s.n for s in summaries})
    if not ns:
        return "No runs yet."
    text = (
        f"n = {ns[0]} run{'s' if ns[0] > 1 else ''} a cell" if len(ns) == 1 else f"n = {ns[0]} to {ns[-1]} runs a cell"
    )
    return text + ("; † marks a cell with fewer runs than planned." if any(s.partial for s in summaries) else ".")


def protocol_words(settings: Iterable[Setting]) -> str:
    """The protocols of the columns, where they are not the paper's."""
    odd = {tuple(odd_protocol(s.protocol).items()) for s in settings}
    said = sorted(", ".join(f"{k.replace('_', ' ')} {v}" for k, v in p) for p in odd if p)
    return f" Protocol: {'; '.join(said)}." if said else ""


def caption(
    what: str, metric: Metric | None, summaries: list[Summary], spread: Spread, extra: str = "", missing: bool = False
) -> Text:
    """One caption in both spellings."""
    better = (
        ""
        if metric is None
        else f" ({'%, ' if metric.scale == 100 else ''}{'higher' if metric.higher else 'lower'} is better)"
    )
    spread_words = f" Mean ± {SPREADS[spread]}," if any(s.spread == s.spread for s in summaries) else ""
    n = counts(summaries)
    parts = [
        f"{what}{better}.",
        f" {metric.words}." if metric and metric.words else "",
        f"{spread_words} {n}",
        " – is a cell without runs or without this metric." if missing else "",
        extra,
    ]
    text = "".join(parts)
    return Text(text, escape(text))
