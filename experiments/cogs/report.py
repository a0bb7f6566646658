"""Exact match on sentences by held-out rule and cell, in distribution beside it (after Fig. 6b,c of paper 2)."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rb_interp.studies.addition_and_scan.report import WORDS

from cogs.sentences import RULES
from cogs.study import CELLS, CLAIMS
from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.numbers import seeds_text, share_text, two_digits
from rb_interp.figures.panels import note, over_seeds, spread_of, try_panel, written
from rb_interp.figures.spec import Caption, FigureSpec
from rb_interp.figures.style import DASHED, INK, new_figure, styled
from rb_interp.report import section as page
from rb_interp.studies.addition_and_scan.figures import CELLS as ALL_CELLS
from rb_interp.studies.addition_and_scan.figures import cell_text, draw_shares, legend_entries

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


@styled
def draw(evidence: Evidence) -> Figure:
    """Exact match of every member on each set."""
    figure = new_figure(2.9)
    try_panel(figure.subplots(), _shares, evidence)
    legend.above(figure, legend_entries(), columns=3)
    return figure


def _shares(axes: Axes, evidence: Evidence) -> None:
    if not sum(draw_shares(axes, evidence, "cogs", set, place) for place, set in enumerate(SETS)):
        raise MissingEvidenceError("This run has no readings of sentences.")
    least = evidence.threshold("P4", 1)
    axes.plot([-0.45, 0.45], [least, least], color=INK, lw=0.9, ls=DASHED, zorder=1)
    note(axes, written(evidence, "P4", 1), (-0.45, least), "data", xytext=(0, -2), ha="left", va="top")
    axes.set_xticks(range(len(SETS)), list(SETS.values()))
    axes.set(xlim=(-0.55, len(SETS) - 0.45), ylim=(-0.03, 1.08), ylabel="exact match (share of sentences)")


def _of(evidence: Evidence, cell: tuple[str, float], set: str) -> str:
    return over_seeds(evidence.sweep(f"cogs_{cell[0]}"), "answers", "right", cell[1], set=set, write=share_text)


def caption(evidence: Evidence) -> Caption:
    """Caption of exact match on sentences, with what P4 judges."""
    high, low = (_of(evidence, cell, "rules") for cell in CELLS)
    least, learned = (two_digits(condition.threshold) for condition in CLAIMS[0].conditions[:2])
    return Caption(
        "Share of sentences whose whole logical form is right under greedy decoding, at the last step, "
        f"{seeds_text(len(evidence.seeds))}, with mean and 95 % interval. The four rules are held out. P4 compares the "
        f"dark squares with the light dots: on the mean of the rules {high} against {low} (median [range]).",
        f"on the right, dark squares less than {least} above the light dots of the same seeds; on the left, dark "
        f"squares or light dots below {learned} (P4).",
    )


def narrative(evidence: Evidence) -> page.Narrative:
    """The contrasts, and the shares of every cell and set."""
    rows = evidence.records("contrasts_summary", task="cogs")
    told = [f"{WORDS[row['contrast']]} {share_text(*spread_of(row))}" for row in rows]
    sets = ("rules", *RULES, "seen_test", "train")
    cells = tuple(
        page.Row((page.Cell(cell_text(*cell), head=True), *(page.Cell(_of(evidence, cell, set)) for set in sets)))
        for cell in ALL_CELLS
    )
    section = page.Section("shares", "Share right", (page.Table(("share right", *sets), cells), page.Figure("rules")))
    answer = f"Difference in the share right under held-out rules, median [range] over seeds: {'; '.join(told)}."
    return page.Narrative((answer,), sections=(section,))


FIGURES = (FigureSpec("rules", "Sentences by held-out rule (after Fig. 6b,c)", draw, caption, ("P4",)),)
