"""Claims T1, T2, T4: R² of the embedding drift at the stage ``leaving``, beside permuted predictions."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.claims.learning_order import LARGE, SMALL
from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import number, two_digits
from rb_interp.figures.panels import by_gamma, gamma_axis, offsets, seeds_at, threshold_at, try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import GREY, INK, TRAINED, new_figure
from rb_interp.studies.emb_mlp.drift import FLOOR
from rb_interp.studies.emb_mlp.figures.common import ADAPTIVE, LEAVING, SWEEPS, at_leaving, floor_band
from rb_interp.tasks.anchor import PLATEAU

CLAIMED = {"descent": "T1", "one_layer": "T4"}
POSITIONS = "#b0620a"
MARKS = {
    "r2": ("o", TRAINED, -0.36, "weights of each step"),
    "r2_positions": ("D", POSITIONS, -0.1, "knowing each token’s position too"),
    "r2_permuted": ("x", GREY, 0.16, "permuted within kind"),
}
"""Quantity -> marker, colour, place beside the rate, words."""
SPREAD = 0.06
NAMES_AT = 1.12
"""Height at which the names of thresholds begin, above all data: R² is at most 1."""


def draw_drift(evidence: Evidence) -> Figure:
    """R² at leaving against the rate, every seed and the interval over seeds, one panel per sweep."""
    figure = new_figure(3.6, 8.4)
    widths = [max(len(evidence.sweep(name).gammas), 2) for name in SWEEPS]
    panels = figure.subplots(1, len(SWEEPS), sharey=True, width_ratios=widths)
    for axes, (name, words) in zip(panels, SWEEPS.items(), strict=True):
        try_panel(axes, _panel, evidence, name)
        axes.set_title(words.replace(", ", ",\n"))
    panels[0].set_ylabel("R² of the anchors' drift at “leaving”")
    r2, excess, less = _thresholds(evidence)
    words = f"criterion (T1, T4: ≥ {r2}, and ≥ permuted + {excess}; T2: ≤ R² at γ = {SMALL:g} less {less})"
    marks = [legend.mark(label, colour, marker) for marker, colour, _, label in MARKS.values()]
    legend.above(figure, [*marks, legend.threshold(words)], columns=2)
    return figure


def _thresholds(evidence: Evidence) -> list[str]:
    """Least R², least excess over permuted predictions, least difference of T2, as written."""
    return [two_digits(evidence.threshold(*condition)) for condition in (("T1", 0), ("T1", 1), ("T2", 0))]


def _panel(axes: Axes, evidence: Evidence, sweep: str) -> None:
    own = evidence.sweep(sweep)
    quantities = [name for name in MARKS if name != "r2_positions" or sweep == "one_layer"]
    read = {name: by_gamma(own, "drift", name, **LEAVING) for name in quantities}
    for place, gamma in enumerate(own.gammas):
        for quantity in (name for name in quantities if gamma in read[name]):
            marker, colour, shift, _ = MARKS[quantity]
            values, interval = read[quantity][gamma].to_numpy(), own.interval("drift", quantity, gamma, **LEAVING)
            if (values < FLOOR).any():
                mean = interval.estimate if quantity == "r2" else None
                _outside(axes, place + shift, values, marker, colour, mean)
            else:
                seeds_at(axes, place + shift, values, interval, colour, marker, spread=SPREAD)
    floor_band(axes)
    gamma_axis(axes, own)
    if sweep in CLAIMED:
        _criteria(axes, evidence, own, CLAIMED[sweep])


def _outside(axes: Axes, x: float, values: np.ndarray, marker: str, colour: str, mean: float | None) -> None:
    """Seeds of which some lie below the panel: those at its hatched strip, with their mean in writing."""
    shown = np.where(values < FLOOR, FLOOR - 0.08, values)
    axes.plot(x + offsets(len(values), SPREAD), shown, marker, ms=3.6, mfc="white", mec=colour, mew=0.9, zorder=3)
    if mean is not None:
        look = {"fontsize": 6.5, "rotation": 90, "ha": "center", "va": "bottom", "color": colour}
        at = (x, float(shown.max()))
        axes.annotate(f"mean {number(mean)}", at, xytext=(0, 6), textcoords="offset points", **look)


def _criteria(axes: Axes, evidence: Evidence, own: Evidence, claim: str) -> None:
    """Thresholds at the rates that they are about, named above the data."""
    r2, excess, less = _thresholds(evidence)
    mean, permuted = (own.interval("drift", q, SMALL, **LEAVING).estimate for q in ("r2", "r2_permuted"))
    levels = [
        (r2, SMALL, evidence.threshold(claim), -0.4, NAMES_AT),
        (f"permuted + {excess}", SMALL, permuted + evidence.threshold(claim, 1), 0.4, NAMES_AT + 0.16),
        (f"γ = {SMALL:g} less {less}", LARGE, mean - evidence.threshold("T2"), -0.4, NAMES_AT),
    ]
    for name, gamma, level, side, height in levels[: 3 if claim == "T1" else 2]:
        if gamma in own.gammas and level > FLOOR:
            threshold_at(axes, own, gamma, level, "")
            place = own.gammas.index(gamma) + side
            axes.plot([place, place], [level, height], color=INK, lw=0.5, zorder=1)
            align = "center" if gamma == SMALL else "left"
            axes.text(place, height, name, fontsize=6.5, ha=align, va="bottom", zorder=9)
    axes.set_ylim(top=NAMES_AT + 0.34)


def caption_drift(evidence: Evidence) -> Caption:
    """Caption of R² at leaving, with the numbers that T1, T2 and T4 judge."""
    r2, excess, less = _thresholds(evidence)
    return Caption(
        "R² of predicted and measured drift of the anchors' embeddings, centred over anchors, at the first evaluation "
        f"with f < {two_digits(PLATEAU)}, just as the loss on reasoning begins to fall. Dots are seeds, bars the mean, "
        "whiskers its 95 % "
        "interval; seeds below −1 stand in the hatched strip, with their mean in writing. Crosses: predictions "
        "permuted among memory anchors and among reasoning anchors, which keep what all of a kind share. Plain "
        f"gradient descent: {at_leaving(evidence, 'descent', 'r2')} at γ = {SMALL:g} (permuted "
        f"{at_leaving(evidence, 'descent', 'r2_permuted')}) and {at_leaving(evidence, 'descent', 'r2', LARGE)} at "
        f"γ = {LARGE:g}; one-layer model: {at_leaving(evidence, 'one_layer', 'r2')} at γ = {SMALL:g}, and "
        f"{at_leaving(evidence, 'one_layer', 'r2_positions')} where the prediction also knows each token's position. "
        "AdamW, which the theory is not about, stands beside them unjudged: R² ignores how it scales every coordinate "
        f"of the gradient, so only its cosine means something, {at_leaving(evidence, ADAPTIVE, 'cos')} at γ = "
        f"{SMALL:g}.",
        f"at γ = {SMALL:g}, R² below {r2} or no more than {excess} above the permuted predictions, with plain gradient "
        f"descent (T1) or in the one-layer model (T4); R² at γ = {LARGE:g} above the dashed line there, less than "
        f"{less} below that at γ = {SMALL:g} (T2).",
    )
