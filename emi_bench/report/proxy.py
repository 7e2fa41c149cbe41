"""The section on a proxy: whether its order of the methods is the paper's, and what it cannot say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from emi_bench import reference
from emi_bench.report.axes import ACCURACY, FORGETTING, Metric, Row, Setting
from emi_bench.report.evidence import Evidence
from emi_bench.report.model import Record, Section, number
from emi_bench.report.plain import csv_text
from emi_bench.report.prediction import (
    Order,
    Published,
    Samples,
    Step,
    competitors,
    correlations,
    is_proxy,
    order,
    published,
    steps,
)
from emi_bench.report.scope import Scope, scope
from emi_bench.report.studies import PARTS
from emi_bench.report.studies import published as printed_study

FEWEST = 3  #: methods: below, an order says nothing
INTRO = (
    "These columns are the paper's on less data: fewer pixels, images or channels. Their accuracies are not the "
    "paper's and are not meant to be; what they may predict is an order. Rank correlations are over the methods "
    "without the two bounds, with 95 % intervals over seeds and methods drawn again; a pair counts as decided where "
    "the 95 % interval of its difference over shared seeds excludes zero."
)


@dataclass(frozen=True)
class Panel:
    """One column of a proxy in one metric, beside the paper's."""

    setting: Setting
    metric: Metric
    ours: Samples
    paper: Published


def panels(evidence: Evidence) -> Iterator[Panel]:
    """Every column that is one of the paper's on less data, with accuracy and forgetting."""
    grid = evidence.grid
    for setting in grid.settings:
        if not is_proxy(dict(setting.protocol)):
            continue
        for metric in (ACCURACY, FORGETTING):
            paper = published(metric.name, setting.dataset, setting.n_tasks, setting.memory)
            rows = [Row(m) for m in paper]
            ours = {r.method: found for r in rows if (found := grid.cell(r, setting).by_seed(metric))}
            if len(competitors(ours, paper)) >= FEWEST:
                yield Panel(setting, metric, ours, paper)


def proxy_section(evidence: Evidence) -> Section | None:
    """Does the proxy predict the paper?"""
    found = list(panels(evidence))
    if not found:
        return None
    html = [f"<p>{INTRO}</p>"]
    records: list[Record] = []
    for panel in found:
        pairs = order(panel.ours, panel.paper, higher=panel.metric.higher)
        html += _order_html(panel, pairs)
        records += _records(panel, pairs)
    columns = list(dict.fromkeys(p.setting for p in found))
    for study in (s for s in evidence.studies[PARTS.kind] if s.setting in columns):
        ours = {point: cell.by_seed(ACCURACY) for point, cell in study.points.items()}
        html += _steps_html(study.setting, steps(ours, printed_study(PARTS)))
    named = [(s.dataset, s.memory) for s in columns]
    studied = {
        kind: (s.setting.dataset, s.setting.memory)
        for kind, some in evidence.studies.items()
        for s in some
        if s.setting in columns
    }
    html += _scope_html([scope(claim, named, studied) for claim in reference.claims()])
    return Section("proxy", "Does the proxy predict the paper?", "\n".join(html), {"prediction.csv": csv_text(records)})


def _order_html(panel: Panel, pairs: Order) -> list[str]:
    head = f"<h3>{escape(panel.setting.title)}: {panel.metric.title.lower()}</h3>"
    told = [
        f"{c.name} {c.value:.2f} [{c.low:.2f}, {c.high:.2f}] over {c.n_methods} methods and {_seeds(c.n_seeds)}"
        for c in correlations(panel.ours, panel.paper)
    ]
    total = pairs.same + len(pairs.reversed)
    decided = sum(p.beyond is True for p in pairs.reversed)
    said = (
        f"Of {total} pairs that the paper tells apart, {pairs.same} stand in its order and {len(pairs.reversed)} do "
        f"not; {decided} of these are decided by the seeds."
    )
    rows = [
        (Row(p.better).title, Row(p.worse).title, f"{p.printed:+.1f}", _gap(p.ours, p.low, p.high), _seeds(p.n),
         {True: "yes", False: "no", None: "too few seeds"}[p.beyond])
        for p in pairs.reversed
    ]  # fmt: skip
    titles = ("better in the paper", "than", "published", "proxy", "over", "decided")
    return [head, *(f"<p>{t}</p>" for t in told), f"<p>{said}</p>", *_table(titles, rows)]


def _steps_html(setting: Setting, found: Sequence[Step]) -> list[str]:
    rows = [
        (s.part, PARTS.words(s.before), f"{s.printed:+.1f}", _gap(s.ours, s.low, s.high), _seeds(s.n), s.verdict)
        for s in found
    ]
    titles = ("switched on", "over", "published", "proxy", "over seeds", "verdict")
    return [f"<h3>{escape(setting.title)}: steps of the ablation</h3>", *_table(titles, rows)]


def _scope_html(scopes: Sequence[Scope]) -> list[str]:
    silent = [s for s in scopes if not s.speaks]
    said = (
        f"Of the paper's {len(scopes)} sentences a proxy with these columns can speak to {len(scopes) - len(silent)}, "
        "and to their direction alone."
    )
    return [
        "<h3>What it cannot say</h3>",
        f"<p>{said}</p>",
        *_table(("sentence", "why not"), [(s.claim, s.why) for s in silent]),
    ]


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    head = "".join(f"<th>{escape(t)}</th>" for t in titles)
    body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in rows)
    return [f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>']


def _records(panel: Panel, pairs: Order) -> Iterable[Record]:
    where = {"dataset": panel.setting.dataset, "memory": panel.setting.memory, "metric": panel.metric.name}
    for c in correlations(panel.ours, panel.paper):
        yield where | {"kind": c.name, "first": "", "second": "", "published": "", "ours": c.value, "low": c.low,
                       "high": c.high, "n": c.n_seeds}  # fmt: skip
    for p in pairs.reversed:
        yield where | {"kind": "reversed pair", "first": p.better, "second": p.worse, "published": p.printed,
                       "ours": p.ours, "low": p.low, "high": p.high, "n": p.n}  # fmt: skip


def _gap(mean: float, low: float, high: float) -> str:
    return f"{mean:+.1f}" + ("" if low != low else f" [{number(low)}, {number(high)}]")


def _seeds(n: int) -> str:
    return f"{n} seed{'' if n == 1 else 's'}"
