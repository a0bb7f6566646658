"""Theory against measurement along training: drift of the embedding (Eqs. 5, 10 and 11), and change of W_V.

Beside it where the two part: the step, and the loss left, at which agreement first falls below AGREES.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures import legend
from rb_interp.figures.curves import by_seed, by_step, mean_band
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import near_text, number, two_digits
from rb_interp.figures.panels import interval_of, offsets, try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import DASHED, GREY, INK, gamma_colour, gamma_marker, new_figure
from rb_interp.studies.emb_mlp.drift import AGREES, FLOOR
from rb_interp.studies.emb_mlp.figures.common import (
    ADAPTIVE,
    GROUPS,
    SWEEPS,
    at_leaving,
    first_fall,
    floor_band,
    hatched,
    level_line,
    of_seeds,
)
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


BASE, BAND = 0.14, 0.86
"""Heights of a panel. Below BASE: seeds below AGREES at the first kept step. Above BAND: seeds that never fall."""
COLUMNS = [
    *((sweep, "each_step", words) for sweep, words in SWEEPS.items()),
    ("one_layer", "positions", "one-layer model, knowing positions too"),
]
MARKS = {"anchor": "o", "memory_anchor": "s", "reasoning_anchor": "D", "key": "^"}


def draw_agreement_end(evidence: Evidence) -> Figure:
    """Step and share of the loss left at which R² first falls below AGREES, by rate, token group and sweep."""
    evidence.table("agreement")
    figure = new_figure(5.4, 9.6)
    widths = [max(len(evidence.sweep(sweep).gammas), 2) for sweep, _, _ in COLUMNS]
    panels = figure.subplots(2, len(COLUMNS), sharey="row", sharex="col", width_ratios=widths)
    for line, column in zip(panels, ("step", "fraction"), strict=True):
        shared = _scale(evidence, column)
        for axes, (sweep, prediction, _) in zip(line, COLUMNS, strict=True):
            try_panel(axes, _end_panel, evidence.sweep(sweep), prediction, column, shared)
    panels[0, 0].set_ylabel(f"training step at which R² < {two_digits(AGREES)}\n(log scale; higher: later)")
    panels[1, 0].set_ylabel("loss left there, f, of a uniform guess's\n(1: nothing learned yet; higher: later)")
    for top, bottom, (_, _, title) in zip(*panels, COLUMNS, strict=True):
        top.set_title(title.replace(", ", ",\n"))
        if bottom.lines:
            bottom.set_xlabel("rate γ")
    marks = [legend.mark(words, colour, MARKS[group]) for group, (words, colour) in GROUPS.items()]
    legend.above(figure, [*marks, legend.line("median of seeds", "#555555", width=2.0)], columns=6)
    return figure


def _scale(evidence: Evidence, column: str) -> tuple[float, float]:
    """Ends of the part of an axis on which falls are drawn; the step's in its logarithm."""
    if column == "fraction":
        return 1.04, -0.04
    rows = evidence.table("agreement", metric="r2")
    rows = rows.loc[rows["prediction"].isin([prediction for _, prediction, _ in COLUMNS])]
    last = np.log10(max(rows["last_step"].max(), 10))
    first = np.log10(rows["step"].dropna().clip(lower=1)).min() if rows["step"].notna().any() else last
    return float(min(first, last)) - 0.15, float(last) + 0.05


def _height(value: float | int, at_first: bool, column: str, scale: tuple[float, float]) -> float:
    """Height of a step or share in the panel: BASE to BAND; above for NaN (never), below for ``at_first``."""
    if at_first:
        return BASE / 2 - 0.02
    if np.isnan(value):
        return (1 + BAND) / 2 - 0.02
    (low, high), place = scale, np.log10(max(value, 1)) if column == "step" else value
    return BASE + (BAND - BASE) * (place - low) / (high - low)


def _end_panel(axes: Axes, own: Evidence, prediction: str, column: str, scale: tuple[float, float]) -> None:
    gammas = own.gammas
    for shift, group in zip(np.linspace(-0.3, 0.3, len(GROUPS)), GROUPS, strict=True):
        for place, gamma in enumerate(gammas):
            where = {"gamma": gamma, "group": group, "prediction": prediction, "metric": "r2"}
            _falls(axes, own, place + shift, column, scale, where)
    axes.set_ylim(0, 1)
    axes.set_xlim(-0.55, len(gammas) - 0.45)
    axes.set_xticks(range(len(gammas)), [f"{gamma:g}" for gamma in gammas])
    for place in range(1, len(gammas)):
        axes.axvline(place - 0.5, color="#eeeeee", lw=0.7, zorder=0)
    ticks = [10**power for power in range(8)] if column == "step" else [1, 0.75, 0.5, 0.25, 0]
    heights = {f"{tick:,}": _height(tick, False, column, scale) for tick in ticks}
    heights = {tick: height for tick, height in heights.items() if BASE - 1e-9 <= height <= BAND}
    axes.set_yticks(list(heights.values()), list(heights))
    words = f"below {two_digits(AGREES)} at the first kept step"
    for low, high, text in ((BAND, 1.0, "never in training"), (0.0, BASE, words)):
        hatched(axes, low, high, axes.transAxes, text, (0.01, high - 0.015), ha="left", va="top")


def _falls(axes: Axes, own: Evidence, x: float, column: str, scale: tuple[float, float], where: dict[str, Any]) -> None:
    """Seeds of one group and rate as markers and the middle one as a bar; nothing where R² is undefined."""
    rows, (_, colour) = own.records("agreement", **where), GROUPS[where["group"]]
    for middle in own.records("agreement_summary", **where):
        heights = [_height(row[column], row["at_first"], column, scale) for row in sorted(rows, key=itemgetter("seed"))]
        look = {"ms": 2.8, "mfc": "white", "mec": colour, "mew": 0.8, "zorder": 3}
        axes.plot(x + offsets(len(rows), 0.055), heights, MARKS[where["group"]], **look)
        bar = _height(middle[f"middle_{column}"], middle["middle_at_first"], column, scale)
        axes.plot([x - 0.09, x + 0.09], [bar, bar], color=colour, lw=2, zorder=4)


def caption_agreement_end(evidence: Evidence) -> Caption:
    """Caption of where agreement ends."""
    falls = "; ".join(
        f"{words}: {first_fall(evidence, sweep, SMALL, prediction)}" for sweep, prediction, words in COLUMNS
    )
    return Caption(
        f"The first kept step at which R² of predicted and measured drift (weights of each step) is below {AGREES:.2f}"
        ", and the share f of the loss on reasoning that was left then (loss over ln d_vocab, at most 1). Dots are "
        "seeds, bars their median (of an even number the earlier of the two in the middle); the hatched strip at the "
        f"top holds seeds in which it never happened, that at the bottom seeds below {two_digits(AGREES)} at the first "
        "kept step "
        f"already, of which no fall was seen (R² may rise above {two_digits(AGREES)} later). f can be compared "
        "between optimisers, steps only within one. A small initialisation spends many steps at f = 1: a late step "
        f"with f near 1 says that the theory covers the plateau, not the learning. All anchors at γ = {SMALL:g}: "
        f"{falls}.",
        "bars that do not rise with γ in the left column (Proposition 1 is a statement about small initialisation); "
        "falls at f = 1 or in the strip at the bottom for small initialisation, that is before anything is learned.",
    )
