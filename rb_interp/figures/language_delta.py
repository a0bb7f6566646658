"""Fig. 7A of paper 1: how much more is lost on TinyStories than on PrOntoQA, by initialisation."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rb_interp.figures.criteria import LANGUAGE
from rb_interp.figures.evidence import SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.language_evidence import by_rate, delta_table, entropies, names, stand_in_note
from rb_interp.figures.learning import mean_band, step_axis, thin
from rb_interp.figures.numbers import seeds_text
from rb_interp.figures.panels import Caption, criterion_at, gamma_axis, seeds_at, try_panel
from rb_interp.figures.style import GREY, INK, gamma_colour, gamma_marker, new_figure, styled

HELD_OUT = "#9a6a1c"
MEANS = {"delta_loss": ("G1", "mean over training"), "delta_loss_per_entropy": ("G1n", "the same, per unigram entropy")}


@styled
def draw_delta_loss(evidence: Evidence) -> Figure:
    """Delta L against training step by rate; its mean over training by rate and seed, as it is and per entropy."""
    figure = new_figure(3.1)
    curves, *means = figure.subplots(1, 3, width_ratios=(1.35, 1, 1))
    try_panel(curves, _curves, evidence)
    curves.set_title("ΔL on text trained on")
    for axes, (quantity, (claim, title)) in zip(means, MEANS.items(), strict=True):
        try_panel(axes, _means, evidence, quantity, claim)
        axes.set_title(title)
    figure.legend(handles=_legend(evidence), loc="outside upper center", ncols=4)
    return figure


def _curves(axes: Axes, evidence: Evidence) -> None:
    drawn, highest = 0, []
    for gamma in evidence.gammas:
        try:
            table = delta_table(evidence, gamma)
        except MissingEvidenceError:
            continue
        drawn += 1
        mean_band(axes, table.loc[thin(table.index.to_numpy())], gamma_colour(gamma, evidence.gammas))
        highest.append(table.to_numpy())
    if not drawn:
        raise MissingEvidenceError("This run has no losses of both corpora.")
    axes.axhline(0, color=GREY, lw=0.8, zorder=0)
    low, high = (float(end(np.concatenate([part.ravel() for part in highest]))) for end in (np.nanmin, np.nanmax))
    margin = 0.06 * (max(high, 0) - min(low, 0) or 1)
    axes.set_ylim(min(low, 0) - margin, max(high, 0) + margin)
    axes.set_ylabel("ΔL = (L$_{stories}$ − L$_{PrOntoQA}$) / L$_{PrOntoQA}$")
    step_axis(axes, float(evidence.curves["step"].to_numpy().max()))


def mean_values(evidence: Evidence, quantity: str) -> pd.DataFrame:
    """Seeds (index) by rates: a quantity of ``corpus_loss`` where it was read; MissingEvidenceError where nowhere."""
    found = {}
    for gamma in evidence.gammas:
        try:
            found[gamma] = evidence.values("corpus_loss", quantity, gamma)
        except MissingEvidenceError:
            continue
    if not found:
        raise MissingEvidenceError(f"This run has no reading of corpus_loss ({quantity}).")
    return pd.DataFrame(found)


def _means(axes: Axes, evidence: Evidence, quantity: str, claim: str) -> None:
    table = mean_values(evidence, quantity)
    places = [evidence.gammas.index(gamma) for gamma in table.columns]
    for _, values in table.iterrows():
        axes.plot(np.array(places) - 0.16, values.to_numpy(), color=GREY, lw=0.5, alpha=0.7, zorder=1)
    for place, gamma in zip(places, table.columns, strict=True):
        colour, marker = gamma_colour(gamma, evidence.gammas), gamma_marker(gamma, evidence.gammas)
        seeds_at(axes, place - 0.16, table[gamma].dropna(), colour, marker, spread=0.05)
        twin = evidence.twin("corpus_loss", quantity, gamma)
        axes.plot([place - 0.42, place - 0.28], [twin, twin], color=GREY, lw=2.4, solid_capstyle="butt", zorder=4)
    _held_out(axes, evidence, f"{quantity}_test")
    axes.axhline(0, color=GREY, lw=0.8, zorder=0)
    criterion_at(axes, evidence, SMALL, LANGUAGE[claim], f"{claim}: > 0", below=True)
    gamma_axis(axes, evidence)
    axes.margins(y=0.12)


def _held_out(axes: Axes, evidence: Evidence, quantity: str) -> None:
    try:
        table = mean_values(evidence, quantity)
    except MissingEvidenceError:
        return
    for gamma in table.columns:
        seeds_at(axes, evidence.gammas.index(gamma) + 0.2, table[gamma].dropna(), HELD_OUT, "x", spread=0.05)


def _legend(evidence: Evidence) -> list[Line2D]:
    lines = [
        Line2D([], [], color=gamma_colour(g, evidence.gammas), marker=gamma_marker(g, evidence.gammas), ms=4,
               mfc="white", lw=1.6, label=f"γ = {g:g}")
        for g in evidence.gammas
    ]  # fmt: skip
    lines.append(Line2D([], [], color=HELD_OUT, marker="x", ls="", ms=4, label="held-out text"))
    lines.append(Line2D([], [], color=GREY, lw=2.4, label="untrained twins"))
    lines.append(Line2D([], [], color=GREY, lw=0.6, label="one seed"))
    lines.append(Line2D([], [], color=INK, lw=0.9, ls=(0, (3, 1.5)), label="criterion"))
    return lines


def caption_delta_loss(evidence: Evidence) -> Caption:
    """Caption of Delta L, with the numbers that G1, G1n and G2 judge."""
    known = entropies(evidence)
    called = names(evidence)
    told = ", ".join(f"{value:.2f} for {called[corpus]}" for corpus, value in known.items())
    return Caption(
        f"Left: ΔL at every evaluation for {seeds_text(len(evidence.seeds))} (thin; thick: mean, bands: its 95 % "
        "interval), 0 where both losses are equal, 1 where stories cost twice as much. Middle: its mean over training, "
        f"{by_rate(evidence, 'corpus_loss', 'delta_loss')}; on held-out text "
        f"{by_rate(evidence, 'corpus_loss', 'delta_loss_test')}. Right: with each loss divided by its corpus's unigram "
        f"entropy{f' ({told}, in nats)' if told else ''}, "
        f"{by_rate(evidence, 'corpus_loss', 'delta_loss_per_entropy')}; an untrained model is below 0 there where the "
        "stories' entropy is the larger. Grey lines join the rates of a seed. ΔL grows without end where PrOntoQA's "
        f"loss nears 0, and depends on how long one trains.{stand_in_note(evidence)}",
        f"at γ = {SMALL:g}, seeds at or below 0 in the middle (G1) or on the right (G1n); grey lines that do not rise "
        "from each rate to the next (G2). PrOntoQA is made from templates, so a positive ΔL at every rate says nothing "
        "of initialisation: only the rise does.",
    )
