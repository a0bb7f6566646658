"""Eq. 5 (and Eqs. 10, 11) against measurement, along training: how long the predicted drift is the drift."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rb_interp.figures.evidence import SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.learning import mean_band
from rb_interp.figures.numbers import number
from rb_interp.figures.panels import Caption, sentence_figure, try_panel
from rb_interp.figures.parts import (
    ADAPTIVE,
    FLOOR,
    LEVEL,
    PARTS,
    at_leaving,
    floor_band,
    gammas_of,
    leaving_steps,
    level_line,
    log_steps,
    rates,
    rows_of,
    told_at_leaving,
)
from rb_interp.figures.style import GREY, INK, gamma_colour, gamma_marker, new_figure, styled

ROWS = {
    ("r2", "each_step"): "R², weights of each step",
    ("r2", "step_0"): "R², weights of step 0",
    ("cos", "each_step"): "cosine, weights of each step",
}


@styled
def draw_agreement(evidence: Evidence) -> Figure:
    """R² and cosine of predicted and measured drift of all anchors against training step, one column per part."""
    try:
        evidence.table("drift")
    except MissingEvidenceError as missing:
        return sentence_figure(str(missing))
    figure = new_figure(6.4, 8.4)
    panels = figure.subplots(len(ROWS), len(PARTS), sharex="col", sharey="row")
    for line, ((column, prediction), words) in zip(panels, ROWS.items(), strict=True):
        for axes, part in zip(line, PARTS, strict=True):
            try_panel(axes, _panel, evidence, part, column, prediction)
        line[0].set_ylabel(words)
    for axes, title in zip(panels[0], PARTS.values(), strict=True):
        axes.set_title(title)
    for axes in panels[:-1].flat:
        axes.set_xlabel("")
    figure.legend(handles=_legend(evidence), loc="outside upper center", ncols=5)
    return figure


def drift_by_step(evidence: Evidence, column: str, **where: Any) -> pd.DataFrame:
    """A column of the table ``drift`` as steps (index, from the first after 0) by seeds; R² no lower than FLOOR."""
    rows = rows_of(evidence, "drift", group="anchor", **where)
    table = rows.loc[rows["step"] > 0].pivot_table(index="step", columns="seed", values=column)
    return table.clip(lower=FLOOR)


def _panel(axes: Axes, evidence: Evidence, part: str, column: str, prediction: str) -> None:
    every = rates(evidence)
    for gamma in gammas_of(evidence, "drift", part=part, prediction=prediction):
        table = drift_by_step(evidence, column, part=part, gamma=gamma, prediction=prediction)
        colour = gamma_colour(gamma, every)
        mean_band(axes, table, colour, (FLOOR, 1.0))
        steps, values = leaving_steps(evidence, part, gamma), _left(evidence, part, gamma, column, prediction)
        for seed in steps.keys() & values.keys():
            axes.plot([steps[seed]], [max(values[seed], FLOOR)], gamma_marker(gamma, every), ms=5, mfc=colour,
                      mec="white", mew=0.5, zorder=5)  # fmt: skip
        if part == "one_layer" and prediction == "each_step":
            _with_positions(axes, evidence, column, gamma, colour)
    log_steps(axes)
    if column == "r2":
        floor_band(axes)
    else:
        axes.set_ylim(min(-0.05, axes.get_ylim()[0]), 1.05)
    level_line(axes, LEVEL, ".90", x=1.015)


def _left(evidence: Evidence, part: str, gamma: float, column: str, prediction: str) -> dict[int, float]:
    """Agreement at ``leaving`` by seed; none where it was not read."""
    try:
        found = at_leaving(evidence, column, part=part, gamma=gamma, group="anchor", prediction=prediction)
    except MissingEvidenceError:
        return {}
    return {int(seed): float(value) for seed, value in found.items()}  # pyright: ignore[reportArgumentType]


def _with_positions(axes: Axes, evidence: Evidence, column: str, gamma: float, colour: object) -> None:
    """Mean of the one-layer prediction that also knows each token's position, dashed; nothing where it is missing."""
    try:
        table = drift_by_step(evidence, column, part="one_layer", gamma=gamma, prediction="positions").dropna()
    except MissingEvidenceError:
        return
    axes.plot(table.index, table.mean(axis=1), color=colour, lw=1.2, ls=(0, (3, 1.5)), zorder=3.5)


def _legend(evidence: Evidence) -> list[Line2D]:
    every = rates(evidence)
    lines = [
        Line2D([], [], color=gamma_colour(g, every), marker=gamma_marker(g, every), ms=5, mec="white", mew=0.5, lw=1.6,
               label=f"γ = {g:g}")
        for g in every
    ]  # fmt: skip
    thin = Line2D([], [], color=GREY, lw=0.6, label="one seed")
    mark = Line2D([], [], color=INK, marker="o", ms=4, mec="white", ls="", label="markers of a rate: stage “leaving”")
    more = Line2D([], [], color=GREY, lw=1.2, ls=(0, (3, 1.5)), label="knowing positions too (one-layer model)")
    return [*lines, thin, mark, more]


def caption_agreement(evidence: Evidence) -> Caption:
    """Caption of agreement along training, with R² at leaving for the small initialisation."""
    at = {"gamma": SMALL, "group": "anchor"}
    told = "; ".join(
        f"{told_at_leaving(evidence, 'r2', part=part, prediction='each_step', **at)} with the weights of each step and "
        f"{told_at_leaving(evidence, 'r2', part=part, prediction='step_0', **at)} with those of step 0 ({words})"
        if part != ADAPTIVE
        else f"no R² but the cosine, {told_at_leaving(evidence, 'cos', part=part, prediction='each_step', **at)} "
        f"({words})"
        for part, words in PARTS.items()
        if _has(evidence, part)
    )
    return Caption(
        "How far the drift of the anchors' embeddings since step 0, as predicted from the label distributions, agrees "
        "with the measured one (centred over all anchors). 1 is exact. R² is 0 for a prediction that gives every "
        "anchor the mean drift, and has no lower bound: values below −1 count as −1 here, also in means and bands, and "
        "run along the hatched strip. Top: the sum over the steps so far with the weights of each step. Middle: as if "
        "the weights had stayed as they were drawn. Bottom: cosine, which forgives a wrong length. Thin lines are "
        "seeds, thick lines their mean, bands its 95 % interval (from three seeds on); markers show where each seed's "
        "loss on reasoning leaves the level of a uniform guess (f < .99). Dashed lines of the one-layer model also "
        "know how often each token stands last, where the residual connection carries it; Propositions 2 and 3 take "
        f"that to be one position in L. R² at the markers at γ = {SMALL:g}: {told or number(None)}. The prediction is "
        "about plain gradient descent; AdamW rescales every coordinate of the gradient, which R² ignores, so that only "
        "its cosine means something.",
        f"a dark line (γ = {SMALL:g}) below .90 at its markers in the left or the right column (T1, T4 judge "
        "this number), or light lines (large initialisation) that stay as high as dark ones (T2).",
    )


def _has(evidence: Evidence, part: str) -> bool:
    try:
        return len(at_leaving(evidence, "r2", part=part, gamma=SMALL, group="anchor", prediction="each_step")) > 0
    except MissingEvidenceError:
        return False
