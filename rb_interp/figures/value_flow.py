"""The one-layer model's W_V: is its first change the weighted sum of embeddings that the theory predicts?"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rb_interp.figures.evidence import SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.learning import mean_band
from rb_interp.figures.numbers import near_text, number
from rb_interp.figures.panels import Caption, seed_interval, sentence_figure, try_panel
from rb_interp.figures.parts import gammas_of, leaving_steps, level_line, log_steps, of_seeds, rates, rows_of
from rb_interp.figures.style import GREY, INK, gamma_colour, gamma_marker, new_figure, styled

PART = "one_layer"
PANELS = {
    "cos": "change of W$_V$: cosine of\npredicted and measured",
    "cos_direction": "its leading direction: |cosine|\nwith the predicted one",
    "share_leading": "share of the measured change\nin one direction",
}


@styled
def draw_value_flow(evidence: Evidence) -> Figure:
    """Predicted and measured change of W_V against training step, one line per rate."""
    try:
        found = gammas_of(evidence, "value_flow", part=PART)
    except MissingEvidenceError as missing:
        return sentence_figure(str(missing))
    figure = new_figure(3.1)
    for axes, (column, title) in zip(figure.subplots(1, 3, sharey=True), PANELS.items(), strict=True):
        try_panel(axes, _panel, evidence, column)
        axes.set_title(title)
    figure.axes[0].set_ylabel("no unit (1: exact)")
    every = rates(evidence)
    handles = [
        Line2D([], [], color=gamma_colour(g, every), marker=gamma_marker(g, every), ms=5, mec="white", mew=0.5, lw=1.6,
               label=f"γ = {g:g}")
        for g in found
    ]  # fmt: skip
    handles.append(Line2D([], [], color=GREY, lw=0.6, label="one seed"))
    handles.append(
        Line2D([], [], color=INK, marker="o", ms=4, mec="white", ls="", label="markers of a rate: stage “leaving”")
    )
    figure.legend(handles=handles, loc="outside upper center", ncols=6)
    return figure


def flow_by_step(evidence: Evidence, column: str, gamma: float) -> pd.DataFrame:
    """A column of the table ``value_flow`` as steps (index, from the first after 0) by seeds."""
    rows = rows_of(evidence, "value_flow", part=PART, gamma=gamma)
    return rows.loc[rows["step"] > 0].pivot_table(index="step", columns="seed", values=column)


def _panel(axes: Axes, evidence: Evidence, column: str) -> None:
    every = rates(evidence)
    for gamma in gammas_of(evidence, "value_flow", part=PART):
        table, colour = flow_by_step(evidence, column, gamma), gamma_colour(gamma, every)
        mean_band(axes, table, colour, (-1.0, 1.0))
        for seed, step in leaving_steps(evidence, PART, gamma).items():
            if seed in table and step in table.index:
                axes.plot([step], [table.at[step, seed]], gamma_marker(gamma, every), ms=5, mfc=colour, mec="white",
                          mew=0.5, zorder=5)  # fmt: skip
    log_steps(axes)
    axes.set_ylim(max(min(-0.03, axes.get_ylim()[0]), -1.05), 1.04)
    if column != "share_leading":
        level_line(axes, 0.9, ".90", x=1.015)


def _told(evidence: Evidence, column: str) -> str:
    """The quantity at leaving over seeds, small initialisation."""
    try:
        table, steps = flow_by_step(evidence, column, SMALL), leaving_steps(evidence, PART, SMALL)
    except MissingEvidenceError:
        return number(None)
    at = [table.at[step, seed] for seed, step in steps.items() if seed in table and step in table.index]
    found = [value for value in at if np.isfinite(value)]
    return near_text(*seed_interval(found)) + of_seeds(evidence, PART, len(found)) if found else number(None)


def caption_value_flow(evidence: Evidence) -> Caption:
    """Caption of the flow of W_V, with its agreement at leaving."""
    return Caption(
        "The one-layer model with plain gradient descent. By the theory's approximations W_V first grows by the sum of "
        "all embeddings, each weighted with how often its token occurs and with its labels (P^s − u). Left: cosine of "
        "that predicted change with the measured change of W_V since step 0. Middle: cosine of the leading left "
        "singular vectors of both, without sign. Right: how much of the measured change lies in one direction. Thin "
        "lines are seeds, thick lines their mean, bands its 95 % interval (from three seeds on); markers show the "
        "stage “leaving”. There, at "
        f"γ = {SMALL:g}: {_told(evidence, 'cos')}, {_told(evidence, 'cos_direction')} and "
        f"{_told(evidence, 'share_leading')}. The paper's own theorem on W_V was not available to us; this is the "
        "leading order of Eq. 9. No claim is judged on it.",
        "lines that are low at the markers: then another account is needed of why the value matrix aligns with "
        "reasoning anchors.",
    )
