"""I and S of every member by rate and position of the key (after Fig. 2 of paper 2), and the learning curves."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.figures import legend
from rb_interp.figures.curves import learning_curve, mean_band
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.learning import learning_panels, loss_limit
from rb_interp.figures.numbers import number, seeds_text, two_digits
from rb_interp.figures.panels import gamma_axis, over_seeds, seeds_at, threshold, try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import BLUE, GREY, INK, RED, SET_COLOURS, WIDTH, new_figure, styled
from rb_interp.studies.composite.config import MIDDLE, SMALL, VERY_LARGE

LOOKS = {"I": ("inferential", BLUE, "o", "-", -0.24), "S": ("symmetric", RED, "s", (0, (4, 1.6)), 0.12)}
"""Share -> word, colour, marker, line, and shift beside the rate."""


@styled
def draw_phases(evidence: Evidence) -> Figure:
    """Shares of inferential and symmetric answers: every member by rate, and by position of the key."""
    rates = evidence.gammas
    figure = new_figure(2.9, max(WIDTH, 2.6 + 1.7 * len(rates)))
    panels = figure.subplots(1, 1 + len(rates), width_ratios=(1.5, *[1.0] * len(rates)), sharey=True, squeeze=False)[0]
    try_panel(panels[0], _members, evidence)
    for axes, gamma in zip(panels[1:], rates, strict=True):
        try_panel(axes, _positions, evidence, gamma)
        axes.set_title(f"γ = {gamma:g}")
    panels[0].set(ylim=(-0.03, 1.08), ylabel="share of the unseen pair's rows", title="members, all positions")
    entries = [
        legend.line(word, colour, line, 1.4, marker=marker, ms=3.6, mfc="white")
        for word, colour, marker, line, _ in LOOKS.values()
    ]
    legend.above(figure, [*entries, legend.seed(), legend.mean_interval()], columns=4)
    return figure


def _members(axes: Axes, evidence: Evidence) -> None:
    for name, (_, colour, marker, _, shift) in LOOKS.items():
        for place, gamma in enumerate(evidence.gammas):
            values = evidence.values("phase", name, gamma)
            seeds_at(axes, place + shift, values, evidence.interval("phase", name, gamma), colour, marker, spread=0.06)
    threshold(axes, evidence.threshold("C1"), f"C1, C2: ≥ {two_digits(evidence.threshold('C1'))}", x=0.99)
    gamma_axis(axes, evidence)


def _positions(axes: Axes, evidence: Evidence, gamma: float) -> None:
    rows = evidence.table("by_position", gamma=gamma)
    for name, (_, colour, marker, line, _) in LOOKS.items():
        for seed in evidence.seeds:
            member = rows.loc[rows["seed"] == seed]
            axes.plot(member["position"], member[name], color=colour, lw=0.5, alpha=0.5, zorder=2)
        means = evidence.table("by_position_summary", gamma=gamma, quantity=name)
        axes.plot(means["position"], means["mean"], color=colour, ls=line, lw=1.4, marker=marker, ms=3.6, mfc="white")
    places = np.unique(rows["position"])
    axes.axvspan(evidence.task.length - 4.5, places.max() + 0.4, color=GREY, alpha=0.15, lw=0, zorder=0)
    axes.set_xticks(places)
    axes.set_xlabel("position of the key")


def caption_phases(evidence: Evidence) -> Caption:
    """Caption of the phases, with what C1, C2 and C5 judge."""
    small, middle = (over_seeds(evidence, "phase", name, gamma) for name, gamma in (("I", SMALL), ("S", MIDDLE)))
    late = evidence.task.length - 5
    return Caption(
        "Answers to the pair that was never trained, at the last step: inferential (key plus both shifts, I) or "
        f"symmetric (as the mirrored pair was trained, S). Left: {seeds_text(len(evidence.seeds))} at each rate, mean "
        f"and 95 % interval. I at γ = {SMALL:g} is {small}, S at γ = {MIDDLE:g} is {middle} (median [range]). Others: "
        f"the same by position of the key, thin lines seeds, thick ones their mean. Grey: keys after position {late}, "
        "where no noise stands between the anchors and the last position, or the second anchor is the last position.",
        f"blue dots at γ = {SMALL:g} (C1) or red squares at γ = {MIDDLE:g} (C2) below the dashed line; the same "
        "mixture at both rates (C5).",
    )


CURVES = {
    "train": ("trained on", INK, "-"),
    "seen_train": ("trained pairs, training keys, fresh rows", SET_COLOURS["rsn_train"], (0, (1, 1))),
    "seen_test": ("trained pairs, test keys", SET_COLOURS["rsn_test"], (0, (4, 1.6))),
    "unseen": ("unseen pair (accuracy: answered inferentially)", BLUE, "-"),
}
"""Set -> words, colour and line."""


@styled
def draw_learning(evidence: Evidence) -> Figure:
    """Loss and accuracy of the four sets against training step, one column per rate."""
    figure, panels = learning_panels(evidence)
    for (loss, accuracy), gamma in zip(panels.T, evidence.gammas, strict=True):
        _curves(loss, evidence, gamma, "loss")
        _curves(accuracy, evidence, gamma, "accuracy")
        loss.set_title(f"γ = {gamma:g}")
    entries = [legend.line(words, colour, line, 1.7) for words, colour, line in CURVES.values()]
    legend.above(figure, [*entries, legend.seed()], columns=3)
    return figure


def _curves(axes: Axes, evidence: Evidence, gamma: float, quantity: str) -> None:
    for name, (_, colour, line) in CURVES.items():
        mean_band(axes, *learning_curve(evidence, gamma, name, quantity), colour, line)


def caption_learning(evidence: Evidence) -> Caption:
    """Caption of the learning curves, with what C3 and C4 judge."""
    limit = loss_limit(evidence)
    higher = evidence.curves["loss"].to_numpy().max() > limit
    cut_off = f" Losses above {number(limit)} nats lie outside the panels." if higher else ""
    unfit, fit = (two_digits(evidence.threshold(claim)) for claim in ("C3", "C4"))
    return Caption(
        f"Cross entropy (top) and accuracy (bottom) for {seeds_text(len(evidence.seeds))}: thin lines are seeds, thick "
        "lines their mean, bands its 95 % interval (from three seeds on). Test keys were not trained at the position "
        "where they stand. The label of the unseen pair is the inferential answer, so a symmetric member has a large "
        f"loss on it.{cut_off}",
        f"an orange accuracy that ends below {fit} or clearly below the purple one at γ = {MIDDLE:g} or {SMALL:g} "
        f"(C4), or one that ends at {unfit} or above at γ = {VERY_LARGE:g} (C3).",
    )
