"""Complexity of weights and of the items' embeddings (after Figs. 5, 10, 12, 13 and 15 of paper 2)."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import seeds_text, two_digits
from rb_interp.figures.panels import heat_map, level, over_seeds, seeds_at, seeds_by_gamma, spread_of, try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import BLUE, COSINES, GREY, WIDTH, gamma_colour, gamma_marker, new_figure, styled
from rb_interp.probes.neuron_groups import ALIKE
from rb_interp.probes.number_lattice import LAGS
from rb_interp.probes.spectra import MATRICES
from rb_interp.studies.composite.complexity import LEADING, LOWER
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


LAG_RANGE = range(1, LAGS + 1)


@styled
def draw_items(evidence: Evidence) -> Figure:
    """First two principal components of the items, the first seed at each rate; below, mean cosine by distance."""
    rates = evidence.shown_gammas
    figure = new_figure(4.4, max(WIDTH, 2.3 * len(rates)))
    panels = figure.subplots(2, len(rates), squeeze=False, height_ratios=(1.2, 1.0))
    for (above, below), gamma in zip(panels.T, rates, strict=True):
        if below is not panels[1, 0]:
            below.sharey(panels[1, 0])
        try_panel(above, _components, evidence, gamma)
        try_panel(below, _by_distance, evidence, gamma)
        below.set_xlabel("distance k of two items")
    panels[1, 0].set_ylabel("C(k), mean cosine")
    drawn = [found for axes in panels[0] for found in axes.collections if isinstance(found, PathCollection)]
    if drawn:
        figure.colorbar(drawn[0], ax=panels[0].tolist(), label="item", aspect=18)
    legend.above(figure, [legend.seed(), legend.line("mean over seeds", BLUE), legend.untrained()], columns=3)
    return figure


def _components(axes: Axes, evidence: Evidence, gamma: float) -> None:
    seed, scores = evidence.first("lattice", "pca", gamma, stage="final")
    _, tokens = evidence.first("lattice", "tokens", gamma, stage="final")
    axes.plot(scores[:, 0], scores[:, 1], color=GREY, lw=0.4, zorder=1)
    axes.scatter(scores[:, 0], scores[:, 1], c=tokens, cmap="viridis", s=9, zorder=2)
    axes.set(title=f"γ = {gamma:g}, seed {seed}", xlabel="PC1", ylabel="PC2")
    axes.margins(0.08)


def _by_distance(axes: Axes, evidence: Evidence, gamma: float) -> None:
    names = [f"cos_{lag}" for lag in LAG_RANGE]
    seeds = [evidence.values("lattice", name, gamma) for name in names]
    for seed in evidence.seeds:
        axes.plot(
            LAG_RANGE, [values.to_dict().get(seed, float("nan")) for values in seeds], color=BLUE, lw=0.5, alpha=0.6
        )
    means = [evidence.interval("lattice", name, gamma).estimate for name in names]
    axes.plot(LAG_RANGE, means, color=BLUE, lw=1.6, marker="o", ms=3)
    axes.plot(LAG_RANGE, [evidence.untrained("lattice", name, gamma) for name in names], color=GREY, lw=1.6)
    axes.axvspan(2.5, 4.5, color=GREY, alpha=0.15, lw=0, zorder=0)
    axes.set_xticks(LAG_RANGE)


def caption_items(evidence: Evidence) -> Caption:
    """Caption of the items, with what K5 to K7 judge."""

    def read(quantity: str, gamma: float) -> str:
        return over_seeds(evidence, "lattice", quantity, gamma)

    high, low, near = (two_digits(evidence.threshold(*place)) for place in (("K5", 0), ("K6", 0), ("K7", 1)))
    return Caption(
        "Embeddings of the items, less their mean, at the last step. Top: the first two principal components in one "
        "member a rate, a grey line from each item to the next. Bottom: mean cosine of items k apart; grey band: 3 "
        "and 4, whose sums are the differences of the anchors' shifts. Best |Spearman| of one of the first three "
        f"components with the item: {read('pc_order', SMALL)} at γ = {SMALL:g}, {read('pc_order', MIDDLE)} at γ = "
        f"{MIDDLE:g}; items whose nearest one is 3 or 4 away at γ = {SMALL:g}: {read('nearest', SMALL)} (median "
        "[range] over seeds).",
        f"at γ = {SMALL:g} a correlation below {high} (K5), or no rise of C(k) in the band and a share below {near} "
        f"(K7); at γ = {MIDDLE:g} a correlation above {low} (K6).",
    )


@styled
def draw_growth(evidence: Evidence) -> Figure:
    """Leading eigenvalues of the items' covariance along training, one column per rate."""
    rates = evidence.shown_gammas
    figure = new_figure(2.6, max(WIDTH, 2.3 * len(rates)))
    panels = figure.subplots(1, len(rates), squeeze=False, sharey=True)[0]
    for axes, gamma in zip(panels, rates, strict=True):
        try_panel(axes, _eigenvalues, evidence, gamma)
        axes.set(title=f"γ = {gamma:g}", xlabel="training step")
    panels[0].set(ylabel="eigenvalue", yscale="log")
    ranks = [float(rank) for rank in range(LEADING, 0, -1)]
    entries = [legend.line(f"rank {rank:g}", gamma_colour(rank, ranks), width=1.4) for rank in ranks[::-1]]
    entries += [legend.line("ranks below", GREY, width=0.7), legend.mark("half of the final value", GREY, "D")]
    legend.above(figure, entries, columns=len(entries))
    return figure


def _eigenvalues(axes: Axes, evidence: Evidence, gamma: float) -> None:
    table, ranks = evidence.table("eigenvalues_summary", gamma=gamma), [float(rank) for rank in range(LEADING, 0, -1)]
    for rank in sorted(table["rank"].unique(), reverse=True):
        here = table.loc[table["rank"] == rank].sort_values("step")
        if rank > LEADING:
            axes.plot(here["step"], here["median"], color=GREY, lw=0.7)
            continue
        colour = gamma_colour(float(rank), ranks)
        axes.plot(here["step"], here["median"], color=colour, lw=1.4)
        axes.fill_between(here["step"], here["lowest"], here["highest"], color=colour, alpha=0.15, lw=0)
        found = evidence.table("growth", gamma=gamma, rank=rank)
        look = {"marker": "D", "ls": "", "ms": 3.2, "mfc": "white", "mec": colour, "mew": 0.8, "zorder": 4}
        axes.plot(found["half_step"], found["final"] / 2, **look)


def caption_growth(evidence: Evidence) -> Caption:
    """Caption of the eigenvalues, with what K4 judges."""
    order = over_seeds(evidence, "eigenvalue_growth", "order", SMALL)
    return Caption(
        "Leading eigenvalues of the covariance of the items' embeddings at every evaluation; lines are medians of "
        f"{seeds_text(len(evidence.seeds))}, bands their range. Diamonds: for each member the evaluation at which one "
        f"of the {LEADING} that end largest is first at half of its final value. Spearman's correlation of rank with "
        f"that step at γ = {SMALL:g}: {order} (median [range] over seeds). Eigenvalues are sorted at each evaluation; "
        "one that starts above half of its final value has its diamond at step 0.",
        f"diamonds at γ = {SMALL:g} that do not move to the right from rank 1 to rank {LEADING}: a correlation below "
        f"{two_digits(evidence.threshold('K4'))} (K4).",
    )
