"""The bias index B, which puts a number on what Fig. 3 of paper 1 shows, against the initialisation rate."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.claims.learning_order import LARGE, SMALL
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import seeds_text, two_digits
from rb_interp.figures.panels import (
    by_gamma,
    gamma_axis,
    offsets,
    over_seeds,
    seeds_at,
    threshold_at,
    try_panel,
    written,
)
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import INK, SET_COLOURS, new_figure

PANELS = {
    "bias": ("rsn_train", "B: memory against reasoning, trained on"),
    "bias_test": ("rsn_test", "B_test: memory against reasoning, held out"),
}


def draw_bias(evidence: Evidence, family: str) -> Figure:
    """Bias index B and B_test against the rate, every seed and the interval over seeds.

    ``family`` is the letter of the claims whose thresholds are drawn.
    """
    figure = new_figure(2.9)
    panels = figure.subplots(1, 2)
    for axes, (quantity, (set, title)) in zip(panels, PANELS.items(), strict=True):
        try_panel(axes, _panel, evidence, quantity, SET_COLOURS[set], family)
        axes.set_title(title)
    ends = [end for axes in panels if axes.lines for end in axes.get_ylim()]
    for axes in panels:
        if axes.lines:
            axes.set_ylim(min(ends), max(ends))
    panels[0].set_ylabel("bias index (no unit, −1 to 1)")
    return figure


def _panel(axes: Axes, evidence: Evidence, quantity: str, colour: str, family: str) -> None:
    found = by_gamma(evidence, "learning_order", quantity)
    if LARGE in evidence.gammas and quantity == "bias":
        place, wide = evidence.gammas.index(LARGE), evidence.threshold(f"{family}2")
        axes.fill_between([place - 0.36, place + 0.36], -wide, wide, color="#ececec", lw=0, zorder=0)
        axes.text(place - 0.34, -wide + 0.01, f"{family}2: within ± {two_digits(wide)}", va="bottom", fontsize=6.5)
    least = evidence.threshold(f"{family}1")
    threshold_at(axes, evidence, SMALL, least, written(evidence, f"{family}1"), below=True)
    table, places = pd.DataFrame(found).T.reindex(evidence.gammas), np.arange(len(evidence.gammas))
    for shift, (_, values) in zip(offsets(table.shape[1]), table.items(), strict=True):
        axes.plot(places + shift, values, color=colour, lw=0.6, alpha=0.45, zorder=1)
    shown = [-0.1, 0.1]
    for gamma, values in found.items():
        interval = evidence.spread("learning_order", quantity, gamma)
        seeds_at(axes, float(evidence.gammas.index(gamma)), values, interval, colour)
        shown += values.tolist()
    axes.axhline(0, color=INK, lw=0.8, zorder=0.5)
    axes.set_ylim(min(shown) - 0.1, max(shown) + 0.1)
    gamma_axis(axes, evidence)
    for y, text in ((0.97, "↑ reasoning learned first"), (0.03, "↓ memory learned first")):
        axes.text(0.01, y, text, transform=axes.transAxes, va="center", color="#555555", fontsize=6.5)


def caption_bias(evidence: Evidence, family: str) -> Caption:
    """Caption of the bias index, with its interval at every rate; ``family`` is the letter of the claims."""
    biases = "; ".join(f"{over_seeds(evidence, 'learning_order', 'bias', g)} at γ = {g:g}" for g in evidence.gammas)
    return Caption(
        "B compares the areas under the blue and the purple loss curves, B_test those under the blue and the "
        "orange ones. Each dot is a seed, thin lines join the members that share a seed (and so data and draws); "
        f"the bar beside them is the median with the range over {seeds_text(len(evidence.seeds))}. B = "
        f"{biases or 'n/a'}.",
        f"seeds at γ = {SMALL:g} below the dashed line ({family}1), seeds at γ = {LARGE:g} outside the grey band "
        f"({family}2), or thin lines in the left panel that do not rise from each rate to the next ({family}4).",
    )
