"""Which mapping is learned first: a section and a sentence, for studies with the sets mem, rsn_train and rsn_test."""

from __future__ import annotations

import numpy as np

from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import interval_text
from rb_interp.report.section import Cell, Paragraph, Row, Section, Table

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
