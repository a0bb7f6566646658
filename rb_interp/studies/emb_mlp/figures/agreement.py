"""Eq. 5 (and Eqs. 10, 11) against measurement, along training: how long the predicted drift is the drift."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures import legend
from rb_interp.figures.curves import by_step
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import two_digits
from rb_interp.figures.panels import try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import DASHED, GREY, gamma_colour, new_figure
from rb_interp.studies.emb_mlp.agreement import AGREES
from rb_interp.studies.emb_mlp.figures.common import (
    ADAPTIVE,
    SWEEPS,
    at_leaving,
    floor_band,
    level_line,
    rate_curves,
    rate_legend,
)

ROWS = {
    ("r2", "each_step"): "R², weights of each step",
    ("r2", "step_0"): "R², weights of step 0",
    ("cos", "each_step"): "cosine, weights of each step",
}


def draw_agreement(evidence: Evidence) -> Figure:
    """R² and cosine of predicted and measured drift of all anchors against training step, one column per sweep."""
    evidence.table("drift")
    figure = new_figure(6.4, 8.4)
    panels = figure.subplots(len(ROWS), len(SWEEPS), sharex="col", sharey="row")
    for line, ((column, prediction), words) in zip(panels, ROWS.items(), strict=True):
        for axes, sweep in zip(line, SWEEPS, strict=True):
            try_panel(axes, _panel, evidence, sweep, column, prediction)
        line[0].set_ylabel(words)
    for axes, title in zip(panels[0], SWEEPS.values(), strict=True):
        axes.set_title(title)
    for axes in panels[:-1].flat:
        axes.set_xlabel("")
    more = legend.line("knowing positions too (one-layer model)", GREY, DASHED, 1.2)
    legend.above(figure, [*rate_legend(evidence), more], columns=5)
    return figure


def _panel(axes: Axes, evidence: Evidence, sweep: str, column: str, prediction: str) -> None:
    rate_curves(axes, evidence, sweep, "drift", column, group="anchor", prediction=prediction)
    if sweep == "one_layer" and prediction == "each_step":
        _with_positions(axes, evidence, column)
    if column == "r2":
        floor_band(axes)
    else:
        axes.set_ylim(min(-0.05, axes.get_ylim()[0]), 1.05)
    level_line(axes, AGREES, two_digits(AGREES))


def _with_positions(axes: Axes, evidence: Evidence, column: str) -> None:
    """Mean of the one-layer prediction that also knows each token's position, dashed."""
    own = evidence.sweep("one_layer")
    for gamma in own.gammas:
        rows = own.table("drift_curves", gamma=gamma, group="anchor", prediction="positions", quantity=column)
        mean = by_step(rows)["mean"]
        axes.plot(mean.index, mean, color=gamma_colour(gamma, evidence.gammas), lw=1.2, ls=DASHED, zorder=3.5)


def caption_agreement(evidence: Evidence) -> Caption:
    """Caption of agreement along training, with R² at leaving for the small initialisation."""
    found = "; ".join(
        f"{at_leaving(evidence, sweep, 'r2')} with the weights of each step and "
        f"{at_leaving(evidence, sweep, 'r2_step_0')} with those of step 0 ({words})"
        if sweep != ADAPTIVE
        else f"no R² but the cosine, {at_leaving(evidence, sweep, 'cos')} ({words})"
        for sweep, words in SWEEPS.items()
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
        f"that to be one position in L. R² at the markers at γ = {SMALL:g}: {found}. The prediction is "
        "about plain gradient descent; AdamW rescales every coordinate of the gradient, which R² ignores, so that only "
        "its cosine means something.",
        f"a dark line (γ = {SMALL:g}) below {two_digits(evidence.threshold('T1'))} at its markers in the left or the "
        "right column (T1, T4 judge this number), or light lines (large initialisation) that stay as high as dark ones "
        "(T2).",
    )
