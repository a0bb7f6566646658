"""The bias index B, which puts a number on what Fig. 3A of paper 1 shows, against the initialisation rate."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.figures.criteria import THRESHOLDS
from rb_interp.figures.evidence import LARGE, SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.numbers import seeds_text
from rb_interp.figures.panels import (
    Caption,
    criterion_at,
    gamma_axis,
    offsets,
    over_seeds,
    seed_interval,
    seeds_at,
    try_panel,
)
from rb_interp.figures.style import INK, SET_COLOURS, new_figure, styled

PANELS = {
    "bias": ("rsn_train", "B: memory against reasoning, trained on"),
    "bias_test": ("rsn_test", "B_test: memory against reasoning, held out"),
}


@styled
def draw_bias(evidence: Evidence, family: str = "A") -> Figure:
    """Bias index B and B_test against the rate, every seed and the interval over seeds.

    ``family`` is the letter of the claims; their thresholds are the same in every family.
    """
    figure = new_figure(2.9)
    panels = figure.subplots(1, 2)
    for axes, (quantity, (kind, title)) in zip(panels, PANELS.items(), strict=True):
        try_panel(axes, _bias_panel, evidence, quantity, SET_COLOURS[kind], family)
        axes.set_title(title)
    ends = [end for axes in panels if axes.lines for end in axes.get_ylim()]
    for axes in panels:
        if axes.lines:
            axes.set_ylim(min(ends), max(ends))
    panels[0].set_ylabel("bias index (no unit, −1 to 1)")
    return figure


def _bias_panel(axes: Axes, evidence: Evidence, quantity: str, colour: str, family: str) -> None:
    table = _by_seed(evidence, quantity)
    if LARGE in evidence.gammas and quantity == "bias":
        place = evidence.gammas.index(LARGE)
        axes.fill_between(
            [place - 0.36, place + 0.36], -THRESHOLDS["A2"], THRESHOLDS["A2"], color="#ececec", lw=0, zorder=0
        )
        axes.text(place - 0.34, -THRESHOLDS["A2"] + 0.01, f"{family}2: within ± .10", va="bottom", fontsize=6.5)
    criterion_at(axes, evidence, SMALL, THRESHOLDS["A1"], f"{family}1: ≥ .10", below=True)
    places = np.arange(len(evidence.gammas))
    for shift, (_, values) in zip(offsets(table.shape[1]), table.items(), strict=True):
        axes.plot(places + shift, values, color=colour, lw=0.6, alpha=0.45, zorder=1)
    for place, (_, values) in zip(places, table.iterrows(), strict=True):
        if values.notna().any():
            seeds_at(axes, float(place), values.dropna(), colour)
    axes.axhline(0, color=INK, lw=0.8, zorder=0.5)
    axes.set_ylim(*_limits(table))
    gamma_axis(axes, evidence)
    for y, text in ((0.97, "↑ reasoning learned first"), (0.03, "↓ memory learned first")):
        axes.text(0.01, y, text, transform=axes.transAxes, va="center", color="#555555", fontsize=6.5)


def _limits(table: pd.DataFrame) -> tuple[float, float]:
    """Ends of the y axis: room for every seed, and for intervals of three seeds or more as far as B can go."""
    intervals = [seed_interval(row.dropna()) for _, row in table.iterrows() if row.notna().sum() > 2]
    ends = np.clip([end for found in intervals for end in found[1:]], -1, 1)
    shown = np.concatenate([table.to_numpy().ravel(), ends, [-0.1, 0.1]])
    return float(np.nanmin(shown)) - 0.1, float(np.nanmax(shown)) + 0.1


def _by_seed(evidence: Evidence, quantity: str) -> pd.DataFrame:
    """A quantity of learning_order, rates (all of the run) by seeds."""
    found = {}
    for gamma in evidence.gammas:
        try:
            found[gamma] = evidence.values("learning_order", quantity, gamma)
        except MissingEvidenceError:
            continue
    if not found:
        raise MissingEvidenceError(f"This run has no reading of learning_order ({quantity}).")
    return pd.DataFrame(found).T.reindex(evidence.gammas)


def caption_bias(evidence: Evidence, family: str = "A") -> Caption:
    """Caption of the bias index, with its interval at every rate; ``family`` is the letter of the claims."""
    told = "; ".join(f"{over_seeds(evidence, 'learning_order', 'bias', g)} at γ = {g:g}" for g in evidence.gammas)
    return Caption(
        "B compares the areas under the blue and the purple loss curves, B_test those under the blue and the "
        "orange ones. Each dot is a seed, thin lines join the members that share a seed (and so data and draws); "
        f"the bar beside them is the mean with its 95 % interval over {seeds_text(len(evidence.seeds))}. B = "
        f"{told or 'n/a'}.",
        f"seeds at γ = 0.8 below the dashed line ({family}1), seeds at γ = 0.3 outside the grey band ({family}2), or "
        f"thin lines in the left panel that do not rise from each rate to the next ({family}4).",
    )
