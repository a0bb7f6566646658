"""Theory against measurement along training: drift of the embedding (Eqs. 5, 10 and 11), and change of W_V."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures import legend
from rb_interp.figures.curves import by_seed, by_step, mean_band
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import near_text, number, two_digits
from rb_interp.figures.panels import interval_of, try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import DASHED, GREY, INK, gamma_colour, gamma_marker, new_figure
from rb_interp.studies.emb_mlp.agreement import AGREES, FLOOR
from rb_interp.studies.emb_mlp.figures.common import ADAPTIVE, SWEEPS, at_leaving, floor_band, level_line, of_seeds
from rb_interp.tasks.anchor import PLATEAU

ROWS = {
    ("r2", "each_step"): "R², weights of each step",
    ("r2", "step_0"): "R², weights of step 0",
    ("cos", "each_step"): "cosine, weights of each step",
}
FLOWS = {
    "cos": "change of W$_V$: cosine of\npredicted and measured",
    "cos_direction": "its leading direction: |cosine|\nwith the predicted one",
    "share_leading": "share of the measured change\nin one direction",
}


def _curves(axes: Axes, evidence: Evidence, sweep: str, table: str, column: str, **where: Any) -> None:
    """One line per rate against training step, cut at FLOOR: seeds, mean, band; markers at ``leaving``."""
    own, every = evidence.sweep(sweep), evidence.gammas
    for gamma in own.gammas:
        rows, colour = own.table(table, gamma=gamma, **where), gamma_colour(gamma, every)
        rows = rows.loc[rows["step"] > 0].assign(**{column: rows[column].clip(lower=FLOOR)})
        means = by_step(own.table(f"{table}_curves", gamma=gamma, quantity=column, **where))
        mean_band(axes, by_seed(rows, column), means, colour, limits=(FLOOR, 1.0))
        for step, value in rows.loc[rows["leaving"], ["step", column]].dropna().to_numpy():
            look = {"ms": 5, "mfc": colour, "mec": "white", "mew": 0.5, "zorder": 5}
            axes.plot([step], [value], gamma_marker(gamma, every), **look)
    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(lambda value, _place: f"{value:,.0f}")
    axes.set_xlabel("training step (log scale)")


def _legend(evidence: Evidence) -> list[Line2D]:
    """What `_curves` draws."""
    mark = legend.mark("markers of a rate: stage “leaving”", INK, filled=True)
    return [*legend.gammas(evidence.gammas, filled=True), legend.seed(), mark]


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
    legend.above(figure, [*_legend(evidence), more], columns=5)
    return figure


def _panel(axes: Axes, evidence: Evidence, sweep: str, column: str, prediction: str) -> None:
    _curves(axes, evidence, sweep, "drift", column, group="anchor", prediction=prediction)
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
        f"loss on reasoning leaves the level of a uniform guess (f < {two_digits(PLATEAU)}). Dashed lines of the "
        "one-layer model also "
        "know how often each token stands last, where the residual connection carries it; Propositions 2 and 3 take "
        f"that to be one position in L. R² at the markers at γ = {SMALL:g}: {found}. The prediction is "
        "about plain gradient descent; AdamW rescales every coordinate of the gradient, which R² ignores, so that only "
        "its cosine means something.",
        f"a dark line (γ = {SMALL:g}) below {two_digits(evidence.threshold('T1'))} at its markers in the left or the "
        "right column (T1, T4 judge this number), or light lines (large initialisation) that stay as high as dark ones "
        "(T2).",
    )


def draw_value_flow(evidence: Evidence) -> Figure:
    """Predicted and measured change of W_V against training step, one line per rate."""
    evidence.table("value_flow")
    figure = new_figure(3.1)
    for axes, (column, title) in zip(figure.subplots(1, 3, sharey=True), FLOWS.items(), strict=True):
        try_panel(axes, _flow_panel, evidence, column)
        axes.set_title(title)
    figure.axes[0].set_ylabel("no unit (1: exact)")
    absent = {f"γ = {gamma:g}" for gamma in set(evidence.gammas) - set(evidence.sweep("one_layer").gammas)}
    legend.above(figure, [entry for entry in _legend(evidence) if entry.get_label() not in absent], columns=6)
    return figure


def _flow_panel(axes: Axes, evidence: Evidence, column: str) -> None:
    _curves(axes, evidence, "one_layer", "value_flow", column)
    axes.set_ylim(max(min(-0.03, axes.get_ylim()[0]), -1.05), 1.04)
    if column != "share_leading":
        level_line(axes, AGREES, two_digits(AGREES))


def caption_value_flow(evidence: Evidence) -> Caption:
    """Caption of the flow of W_V, with its agreement at leaving."""
    own = evidence.sweep("one_layer")
    found = {
        row["quantity"]: near_text(*interval_of(row)) + of_seeds(own, row["n"])
        for row in own.records("value_flow_leaving", gamma=SMALL)
    }
    cos, direction, share = (found.get(column, number(None)) for column in FLOWS)
    return Caption(
        "The one-layer model with plain gradient descent. By the theory's approximations W_V first grows by the sum of "
        "all embeddings, each weighted with how often its token occurs and with its labels (P^s − u). Left: cosine of "
        "that predicted change with the measured change of W_V since step 0. Middle: cosine of the leading left "
        "singular vectors of both, without sign. Right: how much of the measured change lies in one direction. Thin "
        "lines are seeds, thick lines their mean, bands its 95 % interval (from three seeds on); markers show the "
        f"stage “leaving”. There, at γ = {SMALL:g}: {cos}, {direction} and {share}. The paper's own theorem on W_V was "
        "not available to us; this is the leading order of Eq. 9. No claim is judged on it.",
        "lines that are low at the markers: then another account is needed of why the value matrix aligns with "
        "reasoning anchors.",
    )
