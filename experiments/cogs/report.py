"""Exact match on sentences by held-out rule and cell, in distribution beside it (after Fig. 6b,c of
paper 2)."""

from __future__ import annotations

from matplotlib.figure import Figure

from cogs.sentences import RULES
from rb_interp.figures import kit
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.kit import DASHED, INK
from rb_interp.studies.addition_and_scan.figures import draw_shares

SETS = {
    "seen_test": "not trained,\nlike trained ones",
    "object": "object:\nhedgehog",
    "name": "name:\nzoe",
    "passive": "passive:\npainted",
    "deep": "deep:\nchains of 3, 4",
    "rules": "mean of\nthe four rules",
}
"""Set -> its label; the held-out rules stand between the two that P4 judges."""
GLOSSARY: dict[str, str] = {
    "rules": f"The mean over the four rules that are held out: {', '.join(RULES)}. Each is a set of sentences.",
    "seen_test": "Sentences of the same draw as those trained on that were not trained.",
    "exact match": "Share of sentences whose whole logical form is right, its end included (greedy decoding).",
    "low, high": "The two weight decays.",
}


def draw(evidence: Evidence) -> Figure:
    """Exact match of every member on each set."""
    figure, [[axes]] = kit.panels(1, 1, 2.9)
    with kit.missing(axes):
        draw_shares(axes, evidence, [("cogs", name) for name in SETS])
        least = evidence.threshold("P4", 1)
        axes.plot([-0.45, 0.45], [least, least], color=INK, lw=0.9, ls=DASHED, zorder=1)
        axes.set_xticks(range(len(SETS)), list(SETS.values()))
        axes.set_ylabel("exact match (share of sentences)")
    kit.legend(figure, 2)
    return figure


FIGURES = {"rules": draw}
