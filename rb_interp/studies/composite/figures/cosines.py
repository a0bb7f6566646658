"""Cosines of what L1 writes and reads, by key: are equal answers, and equal first steps, parallel? (After Fig. 4.)"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle

from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import seeds_text, two_digits
from rb_interp.figures.panels import (
    by_gamma,
    gamma_axis,
    heat_map,
    level,
    no_reading,
    note,
    over_seeds,
    seeds_at,
    threshold_at,
    try_panel,
)
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import BLUE, GREY, INK, RED, WIDTH, new_figure, styled
from rb_interp.studies.composite.config import MIDDLE, SMALL
from rb_interp.studies.composite.representation import KEYS

VECTORS = {
    "answer_cosines": ("v", ("3_3:2_2", "1_2:1_3"), ("key with (3,3) or (1,2)", "key with (2,2) or (1,3)")),
    "step_cosines": ("u", ("3:4", "1:2"), ("key with 4 or 1", "key with 3 or 2")),
}
"""Reading -> its vector, the comparisons below and above the diagonal, and what stands down and across."""
TURNED = "3:4"
"""The comparison whose first anchor stands across."""
KINDS = {"": "", "centred_": ", centred"}
"""Prefix of a comparison -> what a title says of it."""
LOOKS = {"equal": (RED, "o", -0.24), "different": (BLUE, "s", 0.12)}


@styled
def draw_cosines(evidence: Evidence) -> Figure:
    """Heat maps of v and of u by key, raw and centred, rates beside each other; below them every member's means."""
    rates = evidence.shown_gammas
    figure = new_figure(11.6, max(WIDTH, 2.1 * len(rates)))
    halves: Any = figure.subfigures(2, 1, height_ratios=(4.1, 1))
    top, bottom = halves
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    engine.set(h_pad=0.1)  # a row's label and the next row's title are two things
    panels = top.subplots(4, len(rates), squeeze=False)
    for row, ((probe, (vector, _, names)), kind) in zip(panels, product(VECTORS.items(), KINDS), strict=True):
        for axes, gamma in zip(row, rates, strict=True):
            try_panel(axes, _map, evidence, probe, gamma, kind)
            axes.set_title(f"{vector}{KINDS[kind]}, γ = {gamma:g}")
            axes.set_xlabel(names[1])
        row[0].set_ylabel(names[0])
    images = [axes.images[0] for axes in panels.flat if axes.images]
    if images:
        top.colorbar(images[0], ax=panels, label="cosine, mean over noises and seeds", shrink=0.5, aspect=30)
    for axes, (probe, (vector, *_)) in zip(bottom.subplots(1, 2, sharey=True), VECTORS.items(), strict=True):
        try_panel(axes, _members, evidence, probe)
        axes.set(title=f"{vector}, members", ylim=(-1.05, 1.12))
    bottom.axes[0].set_ylabel("mean cosine")
    entries = [legend.seed_dot(f"{name} targets", colour, marker) for name, (colour, marker, _) in LOOKS.items()]
    legend.above(figure, [*entries, legend.mean_interval(), legend.untrained()], columns=4)
    return figure


def _map(axes: Axes, evidence: Evidence, probe: str, gamma: float, kind: str) -> None:
    """One comparison below the diagonal and one above it, with a box around each cell of equal targets."""
    _, names, _ = VECTORS[probe]
    below, above = (evidence.mean_array(probe, f"{kind}{name}", gamma, stage="final", set="grid") for name in names)
    below = below.T if TURNED in names else below
    diagonal = np.eye(len(KEYS), dtype=bool)
    heat_map(axes, np.where(np.tri(len(KEYS), dtype=bool), below, above), hidden=diagonal)
    for name, side in zip(names, (-1, 1), strict=True):
        down, across = (_shift(evidence, each) for each in name.split(":")[:: -1 if name == TURNED else 1])
        for row, column in np.argwhere((KEYS + down)[:, None] == KEYS + across).tolist():
            if (column - row) * side > 0:
                box = {"facecolor": "none", "edgecolor": INK, "linewidth": 1.1}
                axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **box))
    places = range(0, len(KEYS), 5)
    axes.set_xticks(places, [str(KEYS[at]) for at in places])
    axes.set_yticks(places, [str(KEYS[at]) for at in places])


def _shift(evidence: Evidence, anchors: str) -> int:
    """The shift of anchors such as ``3_3`` or ``3``."""
    return sum(evidence.task.shifts[int(anchor) - 1] for anchor in anchors.split("_"))


def _members(axes: Axes, evidence: Evidence, probe: str) -> None:
    """Mean cosine over equal and over different targets, of every member, with the untrained models' mean."""
    for name, (colour, marker, shift) in LOOKS.items():
        found = by_gamma(evidence, probe, name, set="grid")
        for place, gamma in enumerate(evidence.gammas):
            if gamma not in found:
                no_reading(axes, place)
                continue
            interval = evidence.interval(probe, name, gamma, set="grid")
            seeds_at(axes, place + shift, found[gamma], interval, colour, marker, spread=0.06)
            start = evidence.untrained(probe, name, gamma, set="grid")
            level(axes, place + shift - 0.12, start, GREY, half=0.05)
    claims = {"answer_cosines": (("D1", SMALL, "≥"), ("D2", MIDDLE, "≤")), "step_cosines": (("D4", SMALL, "≥"),)}
    for claim, gamma, sign in claims[probe]:
        y = evidence.threshold(claim)
        threshold_at(axes, evidence, gamma, y, "")
        if gamma in evidence.gammas:
            place = evidence.gammas.index(gamma)
            note(axes, f"{claim}: equal\n{sign} {two_digits(y)}", (place, -0.75), "data", ha="center", va="center")
    gamma_axis(axes, evidence)


def caption_cosines(evidence: Evidence) -> Caption:
    """Caption of the cosines, with what D1, D2 and D4 judge."""

    def read(probe: str, name: str, gamma: float) -> str:
        return over_seeds(evidence, probe, name, gamma, set="grid")

    high, low, step = (two_digits(evidence.threshold(claim)) for claim in ("D1", "D2", "D4"))
    apart, apart_step = (two_digits(evidence.threshold(claim, 1)) for claim in ("D1", "D4"))
    return Caption(
        "Cosines between rows with the same noise, by their keys, at the last step. v is the last position after L1's "
        "attention; (3,3) with (2,2) below the diagonal, (1,2) with (1,3) above it. u is L1's values at the first "
        "anchor; 4 with 3 below the diagonal, 1 with 2 above it. Boxes: equal answers, or equal results of the first "
        "step. The paper's cosines are raw. Rows share a mean, which brings raw cosines near 1; centred ones are of "
        "vectors less the mean over the rows with the same noise. Maps are means over noises and "
        f"{seeds_text(len(evidence.seeds))}, which may fall into groups. "
        "Bottom: each member's mean, of raw cosines, over equal and over different targets of all comparisons. At "
        "small initialisation an untrained v is nearly the embedding of the last token, so all its cosines are near 1. "
        "Equal answers: "
        f"{read('answer_cosines', 'equal', SMALL)} at γ = {SMALL:g} and {read('answer_cosines', 'equal', MIDDLE)} at "
        f"γ = {MIDDLE:g}; equal steps at γ = {SMALL:g}: {read('step_cosines', 'equal', SMALL)} (median [range]).",
        f"at γ = {SMALL:g} a mean over equal answers below {high}, or less than {apart} above that over different ones "
        f"(D1), and the same of steps with {step} and {apart_step} (D4); at γ = {MIDDLE:g} a mean over equal answers "
        f"above {low} (D2).",
    )
