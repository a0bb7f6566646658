"""The items' embeddings: components, cosine by distance, growth of eigenvalues (after Figs. 5 and 12 of paper 2)."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import seeds_text, two_digits
from rb_interp.figures.panels import over_seeds, try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import BLUE, GREY, WIDTH, gamma_colour, new_figure, styled
from rb_interp.probes.number_lattice import LAGS
from rb_interp.studies.composite.complexity import LEADING
from rb_interp.studies.composite.config import MIDDLE, SMALL

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
