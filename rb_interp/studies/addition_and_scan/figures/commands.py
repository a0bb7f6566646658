"""Exact match on commands by number of training rows and cell (after Fig. 6a of paper 2)."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.numbers import seeds_text, share_text, two_digits
from rb_interp.figures.panels import over_seeds, threshold, try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import new_figure, styled
from rb_interp.studies.addition_and_scan.config import LARGE, SIZES, SMALL
from rb_interp.studies.addition_and_scan.figures.cells import draw_shares, legend_entries

SETS = {
    "composites": "jump with other words\n(held out)",
    "seen_test": "other commands without jump\n(not trained)",
    "train": "trained on\n(dashed: what P2 asks for)",
}


@styled
def draw_commands(evidence: Evidence) -> Figure:
    """Exact match of every member: a panel for each set, numbers of rows from left to right."""
    figure = new_figure(3.1)
    panels = figure.subplots(1, len(SETS), sharey=True)
    for axes, (set, title) in zip(panels, SETS.items(), strict=True):
        try_panel(axes, _shares, evidence, set)
        axes.set_title(title)
        axes.set_xlabel("rows trained on")
    threshold(panels[-1], evidence.threshold("P2", 1), "")
    panels[0].set(ylim=(-0.03, 1.08), ylabel="exact match (share of commands)")
    legend.above(figure, legend_entries(), columns=3)
    return figure


def _shares(axes: Axes, evidence: Evidence, set: str) -> None:
    if not sum(draw_shares(axes, evidence, f"scan_{size}", set, place) for place, size in enumerate(SIZES)):
        raise MissingEvidenceError(f"This run has no readings of commands on {set}.")
    axes.set_xticks(range(len(SIZES)), [f"{_rows(evidence, size):,}" for size in SIZES])
    axes.set_xlim(-0.55, len(SIZES) - 0.45)


def _rows(evidence: Evidence, size: str) -> int:
    return evidence.sweep(f"scan_{size}_low").task.n_sequences


def caption_commands(evidence: Evidence) -> Caption:
    """Caption of exact match, with what P2 judges."""
    found = []
    for size in SIZES:
        high, low = (
            over_seeds(
                evidence.sweep(f"scan_{size}_{decay}"), "answers", "right", gamma, set="composites", write=share_text
            )
            for decay, gamma in (("high", SMALL), ("low", LARGE))
        )
        found.append(f"{high} against {low} with {_rows(evidence, size):,} rows")
    least, learned = (two_digits(evidence.threshold("P2", number)) for number in (0, 1))
    return Caption(
        "Share of commands whose whole sequence of actions is right under greedy decoding, at the last step, "
        f"{seeds_text(len(evidence.seeds))}, with mean and 95 % interval. On the left jump stands with other words; in "
        "training it only occurs alone. P2 compares the dark squares with the light dots: on composites "
        f"{'; '.join(found)} (median [range]).",
        f"on the left, at some number of rows, dark squares less than {least} above the light dots of the same seeds; "
        f"on the right, dark squares or light dots below {learned} (P2).",
    )
