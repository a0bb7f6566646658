"""Figs. 3A and 3B of paper 1: which mapping is learned first, as curves and as the bias index B."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.claims.learning_order import LARGE, SMALL
from rb_interp.figures import legend
from rb_interp.figures.curves import learning_curve, mean_band, step_axis
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import number, seeds_text, share_text, two_digits
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
from rb_interp.figures.style import GREY, INK, SET_COLOURS, SET_LINES, SETS, WIDTH, new_figure

LIMIT = 2.0
HALF = "#6d2a78"


def draw_learning(evidence: Evidence) -> Figure:
    """Loss and accuracy of the three sets against training step, one column per rate."""
    figure, panels = learning_panels(evidence)
    for (loss, accuracy), gamma in zip(panels.T, evidence.gammas, strict=True):
        _curves(loss, evidence, gamma, "loss")
        _half_marks(loss, evidence, gamma)
        _curves(accuracy, evidence, gamma, "accuracy")
        seeds = evidence.curves.loc[evidence.curves["gamma"] == gamma, "seed"].nunique()
        bias = over_seeds(evidence, "learning_order", "bias", gamma, write=share_text)
        loss.set_title(f"γ = {gamma:g}   ({seeds_text(seeds)})\nB = {bias}")
    _name_levels(panels[0, -1], evidence)
    half = legend.mark("stage “half”", HALF, "v", 5.0, filled=True, mec=HALF)
    legend.above(figure, [*legend.sets(), legend.seed(), half], columns=5)
    return figure


def learning_panels(evidence: Evidence) -> tuple[Figure, np.ndarray]:
    """A figure and its empty panels: loss (row 0) and accuracy (row 1) against training step, a column for each rate.

    Raises MissingEvidenceError where the run has no members.
    """
    columns = len(evidence.shown_gammas)
    figure = new_figure(3.9, max(WIDTH, 2.1 * columns))
    panels = figure.subplots(2, columns, sharex=True, sharey="row", squeeze=False)
    for accuracy in panels[1]:
        step_axis(accuracy, float(evidence.curves["step"].to_numpy().max()))
    panels[0, 0].set(ylabel="cross entropy (nats)", ylim=(0, loss_limit(evidence)))
    panels[1, 0].set(ylabel="accuracy (share correct)", ylim=(-0.02, 1.02))
    return figure, panels


def loss_limit(evidence: Evidence) -> float:
    """Upper end of the loss axis in nats: what the curves need, at most LIMIT times a uniform guess's loss.

    A large initialisation starts at hundreds of nats and a held-out set may end there; the rest must stay legible.
    """
    guess = math.log(evidence.task.d_vocab)
    later = evidence.curves.loc[evidence.curves["step"] > 0.05 * evidence.curves["step"].max(), "loss"]
    highest = float(later.max()) if len(later) else guess
    return 1.1 * min(max(highest, guess), LIMIT * guess)


def _curves(axes: Axes, evidence: Evidence, gamma: float, quantity: str) -> None:
    for name in SETS:
        if name in evidence.task.sets:
            mean_band(axes, *learning_curve(evidence, gamma, name, quantity), SET_COLOURS[name], SET_LINES[name])


def _half_marks(axes: Axes, evidence: Evidence, gamma: float) -> None:
    """Where each seed's loss on reasoning (trained on) first falls to half of ln d_vocab: the stage ``half``."""
    half = math.log(evidence.task.d_vocab) / 2
    for level in (2 * half, half):
        axes.axhline(level, color=GREY, lw=0.7, ls=(0, (1, 2)), zorder=1)
    steps = evidence.values("learning_order", "half_step", gamma).to_numpy()
    axes.plot(steps, np.full(len(steps), half), "v", ms=5, mfc=HALF, mec="white", mew=0.5, zorder=5)


def _name_levels(axes: Axes, evidence: Evidence) -> None:
    guess = math.log(evidence.task.d_vocab)
    for level, text in ((guess, "ln d_vocab"), (guess / 2, "½ ln d_vocab")):
        axes.annotate(text, (1, level), xycoords=axes.get_yaxis_transform(), xytext=(3, 0), ha="left", va="center",
                      fontsize=6.5, textcoords="offset points", color="#555555", annotation_clip=False)  # fmt: skip


def caption_learning(evidence: Evidence, family: str, note: str = "") -> Caption:
    """Caption of the learning curves; ``family`` is the letter of the claims, ``note`` what ends the caption."""
    limit = loss_limit(evidence)
    higher = evidence.curves["loss"].to_numpy().max() > limit
    cut_off = f" Losses above {number(limit)} nats lie outside the panels." if higher else ""
    large, small = (two_digits(evidence.threshold(f"{family}{claim}")) for claim in (3, 5))
    return Caption(
        "Cross entropy (top) and accuracy (bottom) on memory (blue), reasoning trained on (purple) and reasoning "
        f"held out (orange, dashed), for {seeds_text(len(evidence.seeds))}: thin lines are seeds, thick lines their "
        "mean, bands its 95 % interval (wide where seeds fall into two groups). Triangles: the evaluation at which "
        "a seed's purple loss first reaches half of ln d_vocab (the last one where it never does). ln d_vocab is the "
        f"loss of a uniform guess, above which B counts no loss.{cut_off} B above each column is positive where "
        "reasoning is learned first.",
        f"at γ = {SMALL:g}, a blue curve that falls together with the purple one or before it ({family}1), or an "
        f"orange accuracy that ends below {small} ({family}5); at γ = {LARGE:g}, curves that fall at clearly different "
        f"times ({family}2), or an orange accuracy that ends above {large} ({family}3)."
        f"{note}",
    )


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
