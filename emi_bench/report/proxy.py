"""The section on a proxy: whether its order of the methods is the paper's, and what it cannot say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from emi_bench.report.axes import ACCURACY, Row, Setting
from emi_bench.report.evidence import Evidence
from emi_bench.report.model import Record, Section
from emi_bench.report.plain import csv_text, html_table
from emi_bench.report.prediction import Panel, Step, steps
from emi_bench.report.sentences.scope import Said, proxy_says
from emi_bench.report.statistics import Estimate
from emi_bench.report.studies import PARTS, published

INTRO = (
    "These columns are the paper's on less data: fewer pixels, images or channels. Their accuracies are not the "
    "paper's and are not meant to be; what they may predict is an order. Rank correlations are over the methods "
    "without the two bounds, with 95 % intervals over seeds and methods drawn again; a pair or a step counts as "
    "decided where the 95 % interval of its own difference over shared seeds excludes zero."
)
DECIDED = {True: "yes", False: "no", None: "too few seeds"}


def proxy_section(evidence: Evidence) -> Section | None:
    """Does the proxy predict the paper?"""
    if not evidence.proxy:
        return None
    columns = list(dict.fromkeys(p.setting for p in evidence.proxy))
    html, records = [f"<p>{INTRO}</p>"], list[Record]()
    for panel in evidence.proxy:
        html += _order_html(panel)
        records += _order_records(panel)
    for study in (s for s in evidence.studies[PARTS.kind] if s.setting in columns):
        found = steps({point: cell.by_seed(ACCURACY) for point, cell in study.points.items()}, published(PARTS))
        html += _steps_html(study.setting, found)
        records += [
            _record(study.setting, ACCURACY.name, "ablation step", PARTS.words(s.before), s.part, s.printed, s.gap)
            for s in found
        ]
    said = proxy_says(evidence.grid, evidence.studies, columns)
    html += _sentences_html(said)
    files = {"prediction.csv": csv_text(records), "proxy_claims.csv": csv_text([vars(s) for s in said])}
    return Section("proxy", "Does the proxy predict the paper?", "\n".join(html), files, first=True)


def _order_html(panel: Panel) -> list[str]:
    told = [
        f"<p>{c.name} {c.value:.2f} [{c.low:.2f}, {c.high:.2f}] over {c.n_methods} methods and {_seeds(c.n_seeds)}</p>"
        for c in panel.correlations
    ]
    pairs = panel.order
    decided = sum(p.beyond is True for p in pairs.reversed)
    n, total = len(pairs.reversed), pairs.same + len(pairs.reversed)
    said = (
        f"Of {total} pairs that the paper tells apart, {pairs.same} stand in its order and {n} "
        f"{_verb(n, 'does', 'do')} not; {decided} of these {_verb(decided)} decided by the seeds, "
        f"{pairs.certain} when adjusted for the number of pairs (Holm)."
    )
    rows = [
        (Row(p.better).title, Row(p.worse).title, f"{p.printed:+.1f}", _gap(p.gap), _seeds(p.gap.n), DECIDED[p.beyond])
        for p in pairs.reversed
    ]
    titles = ("better in the paper", "than", "published", "proxy", "over", "decided")
    head = f"<h3>{escape(panel.setting.title)}: {panel.metric.title.lower()}</h3>"
    return [head, *told, f"<p>{said}</p>", html_table(titles, rows)]


def _steps_html(setting: Setting, found: Sequence[Step]) -> list[str]:
    rows = [
        (s.part, PARTS.words(s.before), f"{s.printed:+.1f}", _gap(s.gap), _seeds(s.gap.n), s.direction,
         DECIDED[s.decided])
        for s in found
    ]  # fmt: skip
    titles = ("switched on", "over", "published", "proxy", "over seeds", "direction", "decided")
    same = sum(s.direction == "the paper's" for s in found)
    sure = sum(s.decided is True for s in found)
    told = f"Of {len(found)} steps {same} {_verb(same, 'goes', 'go')} the paper's way; {sure} {_verb(sure)} decided."
    return [
        f"<h3>{escape(setting.title)}: steps of the ablation</h3>", f"<p>{told}</p>", html_table(titles, rows),
    ] if found else []  # fmt: skip


def _sentences_html(said: Sequence[Said]) -> list[str]:
    silent = [s for s in said if s.verdict == "cannot say"]
    head = (
        f"Of the paper's {len(said)} sentences a proxy with these columns can speak to {len(said) - len(silent)}, and "
        "to their direction alone; whatever size is printed is not judged."
    )
    return [
        "<h3>The paper's sentences</h3>", f"<p>{head}</p>", _list([s for s in said if s not in silent]),
        f"<details><summary>The {len(silent)} it cannot speak to, and why</summary>", _list(silent), "</details>",
    ]  # fmt: skip


def _list(said: Sequence[Said]) -> str:
    lines = (
        f'<li><blockquote>{escape(s.quote)}</blockquote><p><span class="verdict {s.verdict.replace(" ", "-")}">'
        f"{s.verdict}</span> <small>{escape(s.numbers)}</small></p></li>"
        for s in said
    )
    return "\n".join(['<ul class="claims">', *lines, "</ul>"])


def _order_records(panel: Panel) -> Iterable[Record]:
    for c in panel.correlations:
        yield _record(panel.setting, panel.metric.name, c.name) | {
            "ours": c.value, "low": c.low, "high": c.high, "n": c.n_seeds
        }  # fmt: skip
    for p in panel.order.reversed:
        yield _record(panel.setting, panel.metric.name, "reversed pair", p.better, p.worse, p.printed, p.gap)


def _record(
    setting: Setting, metric: str, kind: str, first: str = "", second: str = "", printed: float | str = "",
    gap: Estimate | None = None,
) -> dict[str, object]:  # fmt: skip
    told = {"dataset": setting.dataset, "memory": setting.memory, "metric": metric, "kind": kind, "first": first,
            "second": second, "published": printed}  # fmt: skip
    return told | ({"ours": gap.mean, "low": gap.low, "high": gap.high, "n": gap.n} if gap else {})


def _gap(gap: Estimate) -> str:
    """Two decimals: with one, a pair in the wrong order by a little would read +0.0."""
    return f"{gap.mean:+.2f}" + (f" [{gap.low:+.2f}, {gap.high:+.2f}]" if gap.enough else "")


def _verb(n: int, one: str = "is", more: str = "are") -> str:
    return one if n == 1 else more


def _seeds(n: int) -> str:
    return f"{n} seed{'' if n == 1 else 's'}"
