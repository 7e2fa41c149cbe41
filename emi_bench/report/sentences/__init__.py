"""The paper's sentences, recomputed from its own tables and from our runs, and graded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from emi_bench import reference
from emi_bench.report.grid import Grid
from emi_bench.report.sentences import points, rows
from emi_bench.report.sentences.answers import Ours, the_paper
from emi_bench.report.sentences.grades import RULE, Checked, Grade, Judgement, Part, worst
from emi_bench.report.studies import Study

__all__ = ["CHECKS", "RULE", "Checked", "check_sentences", "headline"]

CHECKS = rows.CHECKS | points.CHECKS
THEIRS: dict[Grade, Judgement] = {
    "size": "holds", "direction": "holds", "against": "contradicts itself", "undecided": "contradicts itself",
    None: "not in a table",
}  # fmt: skip
OURS: dict[Grade, Judgement] = {
    "size": "size agrees", "direction": "direction holds", "undecided": "undecided", "against": "does not hold here",
    None: "not enough runs",
}  # fmt: skip


def check_sentences(grid: Grid, studies: Mapping[str, Sequence[Study]]) -> list[Checked]:
    """Every sentence, against the paper's tables and against our runs."""
    printed, ours = the_paper(), Ours(grid, studies)
    out = []
    for claim in reference.claims():
        note = claim.get("note", "")
        if claim["check"] == "fact":
            part = Part(f"printed: {claim['printed']}; in fact {claim['actual']}", "against")
            out.append(
                Checked(claim["id"], claim["quote"], note, "contradicts itself", "not about results", (part,), ())
            )
            continue
        parts = [tuple(CHECKS[claim["check"]](claim, answers)) for answers in (printed, ours)]
        paper, mine = (worst([p.grade for p in some]) for some in parts)
        out.append(Checked(claim["id"], claim["quote"], note, THEIRS[paper], OURS[mine], *parts))
    return out


def headline(checked: Sequence[Checked]) -> str:
    """The strip over the sentences."""
    paper, ours = Counter(c.paper for c in checked), Counter(c.ours for c in checked)
    return (
        f"Of {len(checked)} sentences, {paper['holds']} hold in the paper's own tables and "
        f"{paper['contradicts itself']} contradict them. In our runs the size agrees for {ours['size agrees']}, the "
        f"direction alone holds for {ours['direction holds']}, {ours['undecided']} are undecided, "
        f"{ours['does not hold here']} do not hold, {ours['not enough runs']} wait for runs."
    )
