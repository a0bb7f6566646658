"""Condensation of L0's W_Q, and participation ratios of every matrix (after Figs. 5a, 5b, 10, 13, 15 of paper 2)."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import seeds_text, two_digits
from rb_interp.figures.panels import heat_map, level, over_seeds, seeds_at, seeds_by_gamma, spread_of, try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import COSINES, GREY, WIDTH, gamma_colour, gamma_marker, new_figure, styled
from rb_interp.probes.neuron_groups import ALIKE
from rb_interp.probes.spectra import MATRICES
from rb_interp.studies.composite.complexity import LOWER
from rb_interp.studies.composite.config import MIDDLE, SMALL


@styled
def draw_condensation(evidence: Evidence) -> Figure:
    """Cosines of L0's W_Q neurons sorted by group, the first seed at each rate; on the right the shares of pairs."""
    rates = evidence.shown_gammas
    figure = new_figure(2.7, max(WIDTH, 2.0 + 1.8 * len(rates)))
    panels = figure.subplots(1, len(rates) + 1, squeeze=False)[0]
    for axes, gamma in zip(panels, rates, strict=False):
        try_panel(axes, _neurons, evidence, gamma)
    images = [axes.images[0] for axes in panels if axes.images]
    if images:
        figure.colorbar(images[0], ax=list(panels[:-1]), label="cosine of two neurons", shrink=0.7, aspect=25)
    try_panel(panels[-1], seeds_by_gamma, evidence, "condensation", "share_abs_W_Q")
    panels[-1].set(
        ylabel=f"share of pairs with |cos| > {two_digits(ALIKE)}",
        ylim=(-0.03, 1.05),
        title="all seeds\n",
        xlabel="rate γ",
    )
    legend.above(figure, [legend.seed_dot(), legend.untrained()], columns=2)
    return figure


def _neurons(axes: Axes, evidence: Evidence, gamma: float) -> None:
    seed, cosines = evidence.first("condensation", "cosines_W_Q", gamma, stage="final")
    _, groups = evidence.first("condensation", "group_W_Q", gamma, stage="final")
    heat_map(axes, cosines, colours=COSINES)
    last = int(groups.max()) + 1
    axes.set(xticks=[], yticks=[], xlabel="neuron, by group", title=f"γ = {gamma:g}, seed {seed}\n{last} groups")
    for edge in np.flatnonzero(np.diff(groups)) if last <= len(groups) / 2 else ():
        axes.axhline(edge + 0.5, color="black", lw=0.3)
        axes.axvline(edge + 0.5, color="black", lw=0.3)


def caption_condensation(evidence: Evidence) -> Caption:
    """Caption of the condensation, with what K1 judges."""
    small, middle = (over_seeds(evidence, "condensation", "share_abs_W_Q", gamma) for gamma in (SMALL, MIDDLE))
    apart = two_digits(evidence.threshold("K1"))
    return Caption(
        "Neurons of L0's W_Q: its columns, the input weights of one output each. Left: their cosines at the last step "
        f"in one member a rate. A group holds the neurons with a cosine above {two_digits(ALIKE)} to one of them; "
        "groups stand by size, with lines between them where they are few. Right: share of pairs of neurons with an "
        f"absolute cosine above {two_digits(ALIKE)}; {small} at γ = {SMALL:g} and {middle} at γ = {MIDDLE:g} (median "
        "[range] over seeds). W_Q R and W_K R⁻ᵀ give the same attention for any R, so this says how training moved, "
        "not what is computed.",
        f"a share at γ = {SMALL:g} that is not at least {apart} above that of the same seed at γ = {MIDDLE:g} (K1).",
    )


@styled
def draw_participation(evidence: Evidence) -> Figure:
    """Participation ratio of every matrix of every layer: members, median and range at each rate, untrained models."""
    rates, layers = evidence.shown_gammas, range(evidence.config.model.n_layers)
    figure = new_figure(0.5 + 2.0 * len(layers))
    panels = figure.subplots(len(layers), 1, sharex=True, squeeze=False)[:, 0]
    for axes, layer in zip(panels, layers, strict=True):
        try_panel(axes, _matrices, evidence, layer)
        axes.set(title=f"L{layer}", ylabel="participation ratio (directions)")
    legend.above(figure, [*legend.gammas(rates), legend.untrained()], columns=len(rates) + 1)
    return figure


def _matrices(axes: Axes, evidence: Evidence, layer: int) -> None:
    rates = evidence.gammas
    table, summary = (evidence.table(name, layer=layer) for name in ("matrices", "matrices_summary"))
    places = 0.8 / len(rates)
    for number, matrix in enumerate(MATRICES):
        for place, gamma in enumerate(rates):
            here = table.loc[(table["matrix"] == matrix) & np.isclose(table["gamma"], gamma)]
            over = summary.loc[(summary["matrix"] == matrix) & np.isclose(summary["gamma"], gamma)]
            if here.empty:
                continue
            x, colour = number + (place - (len(rates) - 1) / 2) * places, gamma_colour(gamma, rates)
            middle, first = (over.loc[over["quantity"] == f"participation{end}"].iloc[0] for end in ("", "_untrained"))
            seeds_at(
                axes, x, here["participation"], spread_of(middle), colour, gamma_marker(gamma, rates), places * 0.12
            )
            level(axes, x, first["median"], GREY, half=0.4 * places)
    axes.set(xlim=(-0.6, len(MATRICES) - 0.4), yscale="log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xticks(range(len(MATRICES)), MATRICES)


def caption_participation(evidence: Evidence) -> Caption:
    """Caption of the participation ratios, with what K2 judges."""
    lower, needed = evidence.condition("K2"), two_digits(LOWER)
    return Caption(
        "Participation ratio (Σs²)² / Σs⁴ of the singular values s of every matrix at the last step, heads joined: the "
        f"effective number of its directions. Open markers are members ({seeds_text(len(evidence.seeds))} at each "
        "rate), bar and whisker their median and range, grey dashes the median of the untrained models.",
        f"in a seed, fewer than {lower.threshold:g} of 12 matrices whose ratio at γ = {SMALL:g} is at most {needed} "
        f"times that at γ = {MIDDLE:g} (K2).",
    )


@styled
def draw_singular_values(evidence: Evidence) -> Figure:
    """Singular values of every matrix of every layer in descending order: members, and their mean at each rate."""
    rates, layers = evidence.shown_gammas, range(evidence.config.model.n_layers)
    figure = new_figure(0.6 + 1.7 * len(layers), max(WIDTH, 1.3 * len(MATRICES)))
    panels = figure.subplots(len(layers), len(MATRICES), sharey=True, squeeze=False)
    for row, layer in zip(panels, layers, strict=True):
        for axes, matrix in zip(row, MATRICES, strict=True):
            try_panel(axes, _spectrum, evidence, f"singular_values_L{layer}_{matrix}")
            axes.set_title(f"L{layer}, {matrix}")
        row[0].set_ylabel("singular value")
    for axes in panels[-1]:
        axes.set_xlabel("number")
    entries = [legend.line(f"γ = {gamma:g}, mean", gamma_colour(gamma, rates), "-", 1.4) for gamma in rates]
    legend.above(figure, [*entries, legend.seed()], columns=len(rates) + 1)
    return figure


def _spectrum(axes: Axes, evidence: Evidence, name: str) -> None:
    for gamma in evidence.gammas:
        colour = gamma_colour(gamma, evidence.gammas)
        mean = evidence.mean_array("weight_spectra", name, gamma, stage="final")
        numbers = np.arange(1, len(mean) + 1)
        for values in evidence.array("weight_spectra", name, gamma, stage="final").values():
            axes.plot(numbers, values, color=colour, lw=0.4, alpha=0.5)
        axes.plot(numbers, mean, color=colour, lw=1.4)
    axes.set(yscale="log", ylim=(1e-3, None))


def caption_singular_values(evidence: Evidence) -> Caption:
    """Caption of the singular values, with what K2 judges."""
    return Caption(
        "Singular values of every matrix at the last step, heads joined, the largest one first. Thin lines are members "
        f"({seeds_text(len(evidence.seeds))} at each rate), thick ones their means; values below .001 are cut off. K2 "
        "judges participation ratios, which are made of these.",
        f"at γ = {SMALL:g} lines that do not fall faster behind their first few values than at γ = {MIDDLE:g}.",
    )
