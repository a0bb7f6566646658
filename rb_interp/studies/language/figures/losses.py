"""Figs. 1 and 7A of paper 1: loss on both corpora while a GPT-2 learns them, and how much more stories cost."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures import legend
from rb_interp.figures.curves import by_seed, by_step, learning_curve, mean_band, step_axis, thin
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import number, seeds_text
from rb_interp.figures.panels import level, note, threshold_at, try_panel, written
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import CORPUS_COLOURS, GREY, INK, gamma_colour, new_figure
from rb_interp.studies.language.figures.shared import StyledReading, at_rates, rate_columns, seeds_by_rate, zero_line
from rb_interp.studies.language.words import EARLY, by_rate, early_steps, entropies, names, notes, reading_text
from rb_interp.text.config import CORPORA

ENDS = {"train": ("trained on", "-"), "test": ("held out", (0, (4, 1.6)))}
LIMIT = 1.5
"""The loss axis ends at this many times the larger unigram entropy, where curves go higher."""
HELD_OUT = "#9a6a1c"
MEANS = {"delta_loss": ("G1", "mean over training"), "delta_loss_per_entropy": ("G1n", "the same, per unigram entropy")}


def draw_loss(evidence: Evidence) -> Figure:
    """Loss of each corpus against training step, trained on and held out, one panel per rate (after Fig. 1)."""
    figure, [panels] = rate_columns(evidence, 2.9)
    for axes, gamma in zip(panels, evidence.gammas, strict=True):
        try_panel(axes, _losses, evidence, gamma)
        delta = reading_text(evidence, "corpus_loss", "delta_loss", gamma)
        axes.set_title(f"γ = {gamma:g}   ({seeds_text(len(evidence.seeds))})\nΔL = {delta}")
    known = list(entropies(evidence).values())
    if known:
        look = {"ha": "left", "va": "center", "color": "#555555", "annotation_clip": False, "xytext": (3, 0)}
        at = (1.0, (min(known) + max(known)) / 2)
        note(panels[-1], "unigram\nentropies", at, panels[-1].get_yaxis_transform(), **look)
    panels[0].set_ylim(0, loss_limit(evidence))
    panels[0].set_ylabel("loss (nats per token)")
    lines = [
        legend.line(f"{name}, {words}", CORPUS_COLOURS[corpus], line)
        for corpus, name in names(evidence).items()
        for words, line in ENDS.values()
    ]
    early = legend.mark("stage “early” of a seed", INK, "^", 6.0, filled=True, mew=0.5)
    legend.above(figure, [*lines, legend.seed("one seed, trained on"), early], columns=3)
    return figure


def loss_limit(evidence: Evidence) -> float:
    """Upper end of the loss axis in nats: what curves need after their first twentieth, within LIMIT entropies."""
    later = evidence.curves.loc[evidence.curves["step"] > 0.05 * evidence.curves["step"].max(), "loss"].astype(float)
    highest = float(later.max()) if later.notna().any() else 1.0
    known = entropies(evidence)
    return 1.08 * max(min(highest, LIMIT * max(known.values())) if known else highest, max(known.values(), default=0))


def _losses(axes: Axes, evidence: Evidence, gamma: float) -> None:
    for corpus in CORPORA:
        colour = CORPUS_COLOURS[corpus]
        mean_band(axes, *learning_curve(evidence, gamma, f"{corpus}_train"), colour)
        _, held_out = learning_curve(evidence, gamma, f"{corpus}_test")
        axes.plot(held_out.index, held_out["mean"], color=colour, lw=1.1, ls=ENDS["test"][1], zorder=3)
    for corpus, entropy in entropies(evidence).items():
        axes.axhline(entropy, color=CORPUS_COLOURS[corpus], lw=0.7, ls=(0, (1, 2)), zorder=1)
    steps = early_steps(evidence, gamma)
    if steps:  # an empty line outside the axes would have no place, and the layout none either
        axes.plot(steps, np.zeros(len(steps)), "^", ms=6, color=INK, mec="white", mew=0.5, clip_on=False, zorder=6)
    step_axis(axes, float(evidence.curves["step"].to_numpy().max()))


def caption_loss(evidence: Evidence) -> Caption:
    """Caption of the loss curves, with the final losses on held-out text."""
    called = names(evidence)
    final = "; ".join(f"{called[c]} {reading_text(evidence, 'corpus_loss', f'loss_{c}_test')}" for c in CORPORA)
    limit, highest = loss_limit(evidence), float(evidence.curves["loss"].to_numpy(dtype=float).max(initial=0))
    cut = f" Losses above {number(limit)} nats lie outside the panels." if highest > limit else ""
    return Caption(
        f"Next-token loss on {called['prontoqa']} (red) and {called['stories']} (blue) of one GPT-2 that learns both, "
        f"mixed 1:1, for {seeds_text(len(evidence.seeds))}: text trained on (solid) and held out (dashed). Thick lines "
        "are means, bands their 95 % interval. Dotted: each corpus's unigram entropy, what a model that knows only how "
        "often each token occurs would lose. ΔL above each panel is the mean over training of (blue − red) / red. "
        f"Triangles, {EARLY}. Final held-out losses at γ = {SMALL:g}, nats per token: {final}.{cut}"
        f"{notes(evidence, SMALL)}",
        f"at γ = {SMALL:g}, a blue curve that falls together with the red one or below it (G1). That red lies lower "
        "shows little by itself: PrOntoQA is made from templates, so whatever learns word order loses less on it. Gaps "
        "that do not widen from left to right would refute what is claimed of initialisation (G2).",
    )


def draw_delta(evidence: Evidence) -> Figure:
    """Delta L against training step by rate; its mean over training by rate and seed, as it is and per entropy."""
    figure = new_figure(3.1)
    curves, *means = figure.subplots(1, 3, width_ratios=(1.35, 1, 1))
    try_panel(curves, _deltas, evidence)
    curves.set_title("ΔL on text trained on")
    for axes, (quantity, (claim, title)) in zip(means, MEANS.items(), strict=True):
        try_panel(axes, _means, evidence, quantity, claim)
        axes.set_title(title)
    entries = [*legend.gammas(evidence.gammas), legend.mark("held-out text", HELD_OUT, "x"), legend.untrained()]
    legend.above(figure, [*entries, legend.seed(), legend.threshold()], columns=4)
    return figure


def _deltas(axes: Axes, evidence: Evidence) -> None:
    found = evidence.table("deltas")
    for gamma in evidence.gammas:
        seeds = by_seed(evidence.table("deltas", gamma=gamma), "delta_loss")
        means = by_step(evidence.table("course", gamma=gamma, quantity="delta_loss"))
        kept = thin(seeds.index.to_numpy())
        mean_band(axes, seeds.loc[kept], means.loc[kept], gamma_colour(gamma, evidence.gammas))
    zero_line(axes)
    deltas = found["delta_loss"].to_numpy(dtype=float)
    low, high = min(float(np.nanmin(deltas)), 0.0), max(float(np.nanmax(deltas)), 0.0)
    margin = 0.06 * (high - low or 1)
    axes.set_ylim(low - margin, high + margin)
    axes.set_ylabel("ΔL = (L$_{stories}$ − L$_{PrOntoQA}$) / L$_{PrOntoQA}$")
    step_axis(axes, float(found["step"].to_numpy().max()))


def _means(axes: Axes, evidence: Evidence, quantity: str, claim: str) -> None:
    drawn = at_rates(axes, evidence, "corpus_loss", [StyledReading(quantity, -0.16)], spread=0.05)
    found = {one.x: evidence.values("corpus_loss", quantity, one.gamma) for one in drawn}
    for _, seed in pd.DataFrame(found).iterrows():
        axes.plot(seed.index, seed.to_numpy(), color=GREY, lw=0.5, alpha=0.7, zorder=1)
    for one in drawn:
        level(axes, one.x - 0.19, evidence.untrained("corpus_loss", quantity, one.gamma), GREY, half=0.07)
    if seeds_by_rate(evidence, "corpus_loss", f"{quantity}_test"):
        at_rates(axes, evidence, "corpus_loss", [StyledReading(f"{quantity}_test", 0.2, HELD_OUT, "x")], spread=0.05)
    zero_line(axes)
    threshold_at(axes, evidence, SMALL, evidence.threshold(claim), written(evidence, claim), below=True)
    axes.margins(y=0.12)


def caption_delta(evidence: Evidence) -> Caption:
    """Caption of Delta L, with the numbers that G1, G1n and G2 judge."""
    called = names(evidence)
    known = ", ".join(f"{value:.2f} for {called[corpus]}" for corpus, value in entropies(evidence).items())
    return Caption(
        f"Left: ΔL at every evaluation for {seeds_text(len(evidence.seeds))} (thin; thick: mean, bands: its 95 % "
        "interval), 0 where both losses are equal, 1 where stories cost twice as much. Middle: its mean over training, "
        f"{by_rate(evidence, 'corpus_loss', 'delta_loss')}; on held-out text "
        f"{by_rate(evidence, 'corpus_loss', 'delta_loss_test')}. Right: with each loss divided by its corpus's unigram "
        f"entropy{f' ({known}, in nats)' if known else ''}, "
        f"{by_rate(evidence, 'corpus_loss', 'delta_loss_per_entropy')}; an untrained model is below 0 there where the "
        "stories' entropy is the larger. Grey lines join the rates of a seed. ΔL grows without end where PrOntoQA's "
        f"loss nears 0, and depends on how long one trains.{notes(evidence)}",
        f"at γ = {SMALL:g}, seeds at or below 0 in the middle (G1) or on the right (G1n); grey lines that do not rise "
        "from each rate to the next (G2). PrOntoQA is made from templates, so a positive ΔL at every rate says nothing "
        "of initialisation: only the rise does.",
    )
