"""Exact match on sentences by held-out rule and cell, in distribution beside it (after Fig. 6b,c of paper 2)."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.numbers import seeds_text, share_text, two_digits
from rb_interp.figures.panels import note, over_seeds, try_panel, written
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import DASHED, INK, new_figure, styled
from rb_interp.studies.addition_and_scan.config import COGS, LARGE, SMALL
from rb_interp.studies.addition_and_scan.figures.cells import draw_shares, legend_entries

SETS = {
    "seen_test": "not trained,\nlike trained ones",
    "object": "object:\nhedgehog",
    "name": "name:\nzoe",
    "passive": "passive:\npainted",
    "deep": "deep:\nchains of 3, 4",
    "rules": "mean of\nthe four rules",
}
"""Set -> its label; the held-out rules stand between the two that P4 judges."""
NEEDS_PAPER = "P4 needs sentences, which the preset “paper” has: this run has no sweeps of them."


@styled
def draw_rules(evidence: Evidence) -> Figure:
    """Exact match of every member on each set; MissingEvidenceError in a run without sentences."""
    _needed(evidence)
    figure = new_figure(2.9)
    axes = figure.subplots()
    try_panel(axes, _shares, evidence)
    legend.above(figure, legend_entries(), columns=3)
    return figure


def _needed(evidence: Evidence) -> None:
    if COGS not in evidence.config.tasks:
        raise MissingEvidenceError(NEEDS_PAPER)


def _shares(axes: Axes, evidence: Evidence) -> None:
    if not sum(draw_shares(axes, evidence, COGS, set, place) for place, set in enumerate(SETS)):
        raise MissingEvidenceError("This run has no readings of sentences.")
    least = evidence.threshold("P4", 1)
    axes.plot([-0.45, 0.45], [least, least], color=INK, lw=0.9, ls=DASHED, zorder=1)
    note(axes, written(evidence, "P4", 1), (-0.45, least), "data", xytext=(0, -2), ha="left", va="top")
    axes.set_xticks(range(len(SETS)), list(SETS.values()))
    axes.set(xlim=(-0.55, len(SETS) - 0.45), ylim=(-0.03, 1.08), ylabel="exact match (share of sentences)")


def caption_rules(evidence: Evidence) -> Caption:
    """Caption of exact match on sentences, with what P4 judges; MissingEvidenceError in a run without sentences."""
    _needed(evidence)
    high, low = (
        over_seeds(evidence.sweep(f"{COGS}_{decay}"), "answers", "right", gamma, set="rules", write=share_text)
        for decay, gamma in (("high", SMALL), ("low", LARGE))
    )
    least, learned = (two_digits(evidence.threshold("P4", number)) for number in (0, 1))
    return Caption(
        "Share of sentences whose whole logical form is right under greedy decoding, at the last step, "
        f"{seeds_text(len(evidence.seeds))}, with mean and 95 % interval. The four rules are held out. P4 compares the "
        f"dark squares with the light dots: on the mean of the rules {high} against {low} (median [range]).",
        f"on the right, dark squares less than {least} above the light dots of the same seeds; on the left, dark "
        f"squares or light dots below {learned} (P4).",
    )
