"""Sections that several studies share: verdicts within groups of seeds, and which mapping is learned first.

The latter is for studies with the sets mem, rsn_train and rsn_test.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rb_interp.claims import Verdict, Within
from rb_interp.claims.rule import FEWEST
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import interval_text, seeds_text, share_text
from rb_interp.report.section import Cell, Paragraph, Row, Section, Table

DESCRIBES = (
    "The grouping is by an outcome, so it describes and does not test: what names a group can be what a claim reads."
)
FEW = (
    f"The rule is that of all verdicts, on the seeds of one group alone. In a group with fewer than {FEWEST} seeds "
    "nothing is ever decided. The count of seeds that meet the claim and the median say what there is."
)
READ = (
    "Each cell: the verdict, the seeds of the group that meet every condition, and the median over its seeds [range] "
    "of the condition that fewest of them meet. Shares have 95 % intervals (Clopper-Pearson)."
)


def within_section(within: Within | None, everyone: Iterable[Verdict]) -> tuple[Section, ...]:
    """The section, with the verdicts on all seeds beside those within groups; none where there are no groups."""
    if within is None or not within.groups:
        return ()
    overall = {verdict.id: verdict for verdict in everyone}
    sizes = [
        Cell(
            f"{len(group.seeds)}/{group.total}",
            notes=(f"share {share_text(group.share, group.low, group.high)}", seeds_listed(group.seeds)),
        )
        for group in within.groups
    ]
    first = Row((Cell("seeds", head=True), Cell(seeds_text(within.groups[0].total)), *sizes))
    rows = [
        Row(
            (
                Cell(verdict.id, link=f"claim-{verdict.id}", head=True),
                _cell(overall[verdict.id]) if verdict.id in overall else Cell(),
                *(_cell(group.verdicts[verdict.id]) for group in within.groups),
            )
        )
        for verdict in within.groups[0].verdicts
    ]
    columns = ("claim", "all seeds", *(group.name for group in within.groups))
    introduction = (Paragraph(f"Seeds are grouped by {within.by}. {DESCRIBES}"), Paragraph(FEW))
    blocks = (*introduction, Table(columns, (first, *rows), dense=True), Paragraph(READ, kind="soft"))
    return (Section("within", "Verdicts within groups of seeds", blocks, short="Within groups"),)


def seeds_listed(seeds: Iterable[int]) -> str:
    """Seeds as a short line: runs of three and more are written with their ends.

    >>> seeds_listed((0, 1, 2, 5, 7, 8))
    'seeds 0 to 2, 5, 7, 8'
    """
    runs: list[list[int]] = []
    for seed in seeds:
        if runs and runs[-1][-1] == seed - 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    parts = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"{'seed' if runs == [[seed]] else 'seeds'} {', '.join(parts)}"


def _cell(verdict: Verdict) -> Cell:
    values = (float("nan") if value is None else value for value in (verdict.effect, verdict.low, verdict.high))
    several = (verdict.statistic,) if len(verdict.conditions) > 1 else ()
    held = (f"withheld; the numbers alone: {verdict.uncalibrated_outcome}",) if verdict.withheld else ()
    return Cell(verdict.met_by, notes=(interval_text(*values), *several, *held), verdict=verdict.outcome)


QUANTITIES = {
    "bias": "bias index B",
    "bias_test": "bias index B_test",
    "half_step": "half (training step)",
    "acc_mem": "final accuracy, memory",
    "acc_rsn_train": "final accuracy, reasoning trained on",
    "acc_rsn_test": "final accuracy, reasoning held out",
    "margin_mem": "memory: label entropy − final loss (nats)",
    "margin_rsn_train": "reasoning: label entropy − final loss (nats)",
}


def learning_order_section(evidence: Evidence) -> Section:
    """One row per quantity of the learning curves, with median and range at each gamma."""
    title, rows = "What is learned first", []
    for quantity, label in QUANTITIES.items():
        found = [evidence.spread("learning_order", quantity, gamma) for gamma in evidence.gammas]
        if any(np.isfinite(interval.estimate) for interval in found):
            cells = [Cell(interval_text(*interval)) for interval in found]
            rows.append(Row((Cell(label, head=True), *cells)))
    columns = ("median over seeds [lowest, highest]", *(f"γ = {gamma:g}" for gamma in evidence.gammas))
    table = Table(columns, tuple(rows))
    block = table if rows else Paragraph("This run has no readings of the learning order.")
    return Section("learning-order", title, (block,), short="Learning order")


def bias_sentence(evidence: Evidence) -> tuple[str, ...]:
    """The bias index at each gamma in one sentence; nothing where the run has no member."""
    found = [
        f"{interval_text(*evidence.spread('learning_order', 'bias', gamma))} at γ = {gamma:g}"
        for gamma in evidence.gammas
    ]
    words = "Bias index B (positive: the rule is learned before the table), median over seeds [lowest, highest]"
    return (f"{words}: {'; '.join(found)}.",) if found else ()
