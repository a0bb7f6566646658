"""Claims T1, T2, T4: R² of the embedding drift at the stage ``leaving``, beside permuted predictions."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rb_interp.figures.criteria import THEORY
from rb_interp.figures.evidence import LARGE, SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.numbers import near_text, number
from rb_interp.figures.panels import Caption, criterion_at, gamma_axis, offsets, seed_interval, seeds_at, try_panel
from rb_interp.figures.parts import ADAPTIVE, FLOOR, PARTS, floor_band, of_seeds, part_of, told_at_leaving
from rb_interp.figures.style import GREY, INK, REASONING, new_figure, styled

CLAIMED = {"descent": "T1", "one_layer": "T4"}
POSITIONS = "#b0620a"
SPREAD = 0.06
NAMES_AT = 1.12
"""Height at which the names of criteria begin, above all data: R² is at most 1."""


@styled
def draw_drift(evidence: Evidence) -> Figure:
    """R² at leaving against the rate, every seed and the interval over seeds, one panel per part."""
    figure = new_figure(3.6, 8.4)
    widths = [max(len(evidence.parts[name].gammas), 2) if name in evidence.parts else 2 for name in PARTS]
    panels = figure.subplots(1, len(PARTS), sharey=True, width_ratios=widths)
    for axes, (name, words) in zip(panels, PARTS.items(), strict=True):
        try_panel(axes, _panel, evidence, name)
        axes.set_title(words.replace(", ", ",\n"))
    panels[0].set_ylabel("R² of the anchors' drift at “leaving”")
    marks = (("o", REASONING, "weights of each step"), ("D", POSITIONS, "knowing each token’s position too"),
             ("x", GREY, "permuted within kind"))  # fmt: skip
    handles = [Line2D([], [], ls="", marker=m, ms=4, mfc="white", mec=c, label=w) for m, c, w in marks]
    words = "criterion (T1, T4: ≥ .90, and ≥ permuted + .10; T2: ≤ R² at γ = 0.8 less .20)"
    handles.append(Line2D([], [], color=INK, lw=0.9, ls=(0, (3, 1.5)), label=words))
    figure.legend(handles=handles, loc="outside upper center", ncols=2)
    return figure


def r2_at_leaving(evidence: Evidence, part: str, gamma: float, quantity: str = "r2") -> np.ndarray:
    """R² of all anchors by seed: ``r2``, ``r2_positions``, or ``permuted``. MissingEvidenceError where not read."""
    found = part_of(evidence, part)

    def read(name: str):
        return found.values("drift", name, gamma, stage="leaving", rows="anchor")

    if quantity == "permuted":
        return (read("r2") - read("r2_excess")).dropna().to_numpy()
    return read(quantity).to_numpy()


def _panel(axes: Axes, evidence: Evidence, part: str) -> None:
    found, drawn = part_of(evidence, part), 0
    marks = {"r2": ("o", REASONING, -0.36), "r2_positions": ("D", POSITIONS, -0.1), "permuted": ("x", GREY, 0.16)}
    for place, gamma in enumerate(found.gammas):
        for quantity, (marker, colour, shift) in marks.items():
            try:
                values = r2_at_leaving(evidence, part, gamma, quantity)
            except MissingEvidenceError:
                continue
            drawn += 1
            if (values < FLOOR).any():
                _outside(axes, place + shift, values, marker, colour, written=quantity == "r2")
            else:
                seeds_at(axes, place + shift, values, colour, marker, spread=SPREAD)
    if not drawn:
        raise MissingEvidenceError("This part has no reading of drift at the stage “leaving”.")
    floor_band(axes)
    gamma_axis(axes, found)
    _criteria(axes, evidence, found, part)


def _outside(axes: Axes, x: float, values: np.ndarray, marker: str, colour: str, written: bool) -> None:
    """Seeds of which some lie below the panel: those at its hatched strip, with their mean in writing."""
    shown = np.where(values < FLOOR, FLOOR - 0.08, values)
    axes.plot(x + offsets(len(values), SPREAD), shown, marker, ms=3.6, mfc="white", mec=colour, mew=0.9, zorder=3)
    if written:
        text = f"mean {number(float(values.mean()))}"
        axes.annotate(text, (x, float(shown.max())), xytext=(0, 6), textcoords="offset points",
                      fontsize=6.5, rotation=90, ha="center", va="bottom", color=colour)  # fmt: skip


def _criteria(axes: Axes, evidence: Evidence, found: Evidence, part: str) -> None:
    if part not in CLAIMED:
        return
    claim = CLAIMED[part]
    levels = [(f"{THEORY[claim]:.2f}".lstrip("0"), SMALL, THEORY[claim], -0.4, NAMES_AT)]
    try:
        over = r2_at_leaving(evidence, part, SMALL, "permuted").mean() + THEORY["excess"]
        levels.append(("permuted + .10", SMALL, over, 0.4, NAMES_AT + 0.16))
        if claim == "T1":
            less = r2_at_leaving(evidence, part, SMALL).mean() - THEORY["T2"]
            levels.append((f"γ = {SMALL:g} less .20", LARGE, less, -0.4, NAMES_AT))
    except MissingEvidenceError:
        pass
    for name, gamma, level, side, height in levels:
        if gamma in found.gammas and level > FLOOR:
            criterion_at(axes, found, gamma, level, "")
            place, middle = found.gammas.index(gamma) + side, gamma == SMALL
            axes.plot([place, place], [level, height], color=INK, lw=0.5, zorder=1)
            axes.text(place, height, name, fontsize=6.5, ha="center" if middle else "left", va="bottom", zorder=9)
    axes.set_ylim(top=NAMES_AT + 0.34)


def _told(evidence: Evidence, part: str, gamma: float, quantity: str = "r2") -> str:
    try:
        values = r2_at_leaving(evidence, part, gamma, quantity)
    except MissingEvidenceError:
        return number(None)
    threshold = THEORY["T1"] if quantity == "r2" else None
    return near_text(*seed_interval(values), threshold) + of_seeds(evidence, part, len(values))


def caption_drift(evidence: Evidence) -> Caption:
    """Caption of R² at leaving, with the numbers that T1, T2 and T4 judge."""
    return Caption(
        "R² of predicted and measured drift of the anchors' embeddings, centred over anchors, at the first evaluation "
        "with f < .99, just as the loss on reasoning begins to fall. Dots are seeds, bars the mean, whiskers its 95 % "
        "interval; seeds below −1 stand in the hatched strip, with their mean in writing. Crosses: predictions "
        "permuted among memory anchors and among reasoning anchors, which keep what all of a kind share. Plain "
        f"gradient descent: {_told(evidence, 'descent', SMALL)} at γ = {SMALL:g} (permuted "
        f"{_told(evidence, 'descent', SMALL, 'permuted')}) and {_told(evidence, 'descent', LARGE)} at γ = {LARGE:g}; "
        f"one-layer model: {_told(evidence, 'one_layer', SMALL)} at γ = {SMALL:g}, and "
        f"{_told(evidence, 'one_layer', SMALL, 'r2_positions')} where the prediction also knows each token's position. "
        "AdamW, which the theory is not about, stands beside them unjudged: R² ignores how it scales every coordinate "
        "of the gradient, so only its cosine means something, "
        f"{told_at_leaving(evidence, 'cos', part=ADAPTIVE, gamma=SMALL, group='anchor', prediction='each_step')} at "
        f"γ = {SMALL:g}.",
        f"at γ = {SMALL:g}, R² below .90 or no more than .10 above the permuted predictions, with plain gradient "
        f"descent (T1) or in the one-layer model (T4); R² at γ = {LARGE:g} above the dashed line there, less than .20 "
        f"below that at γ = {SMALL:g} (T2).",
    )
