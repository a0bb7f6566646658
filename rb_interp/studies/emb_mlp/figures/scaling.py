"""Eq. 13 and Lemma 1 of paper 1 on fresh models of growing width."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import interval_text, number
from rb_interp.figures.panels import interval_of, seeds_at, try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import ATTENTION, DASHED, INK, MARKERS, gamma_colour, gamma_marker, new_figure
from rb_interp.studies.emb_mlp.figures.common import level_line


def draw_inner_products(evidence: Evidence) -> Figure:
    """Largest error of predicted inner products against d_model (left), its exponent beside 1 - gamma (right)."""
    gammas = sorted(evidence.table("exponents_summary")["gamma"].tolist())
    figure = new_figure(3.4)
    errors, slopes = figure.subplots(1, 2, width_ratios=(1.15, 1))
    try_panel(errors, _errors, evidence, gammas)
    try_panel(slopes, _exponents, evidence, gammas)
    entries = [*legend.gammas(gammas), legend.threshold("slope 1 − γ (Eq. 13)")]
    legend.above(figure, entries, columns=5)
    return figure


def _errors(axes: Axes, evidence: Evidence, gammas: list[float]) -> None:
    for gamma in gammas:
        rows, colour = evidence.table("inner_products", gamma=gamma), gamma_colour(gamma, gammas)
        marker = gamma_marker(gamma, gammas)
        axes.plot(rows["d_model"], rows["error"], marker, ms=3, mfc="white", mec=colour, mew=0.7)
        means = evidence.table("inner_products_summary", gamma=gamma).sort_values("d_model")
        axes.plot(means["d_model"], means["mean"], color=colour, lw=1.4, zorder=3)
        axes.plot(means["d_model"], means["by_eq_13"], color=colour, lw=0.9, ls=DASHED, zorder=2)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(FixedLocator(sorted(set(evidence.table("inner_products")["d_model"]))))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _place: f"{value:,.0f}")
    axes.set_xlabel("d_model (log scale)")
    axes.set_ylabel("largest error of an inner product\n(embedding units squared, log scale)")
    axes.set_title("error")


def _exponents(axes: Axes, evidence: Evidence, gammas: list[float]) -> None:
    predicted, seen = [], []
    for place, gamma in enumerate(gammas):
        (row,) = evidence.records("exponents_summary", gamma=gamma)
        values = evidence.table("exponents", gamma=gamma).sort_values("seed")["exponent"].dropna()
        seeds_at(axes, place, values, interval_of(row), gamma_colour(gamma, gammas), gamma_marker(gamma, gammas))
        predicted.append(row["predicted"])
        seen += values.tolist()
    axes.plot(range(len(gammas)), predicted, color=INK, ls=DASHED, lw=0.9, zorder=1)
    low, top = min(*seen, *predicted) - 0.15, max(*seen, *predicted) + 0.15
    axes.fill_between(range(len(gammas)), predicted, top, color="#fbeeee", lw=0, zorder=0)
    axes.set_ylim(low, top)
    look = {"ha": "right", "va": "top", "fontsize": 6.5, "color": "#8a3b35"}
    axes.text(0.98, 0.97, "grows faster than the bound", transform=axes.transAxes, **look)
    axes.set_xticks(range(len(gammas)), [f"{gamma:g}" for gamma in gammas])
    axes.set_xlim(-0.5, len(gammas) - 0.4)
    axes.set_xlabel("rate γ  (→ smaller initialisation)")
    axes.set_ylabel("exponent of d_model (no unit)")
    axes.set_title("slope of each line on the left")


def _of_small(evidence: Evidence) -> tuple[str, str]:
    """The exponent at the small initialisation beside its bound, and the relative error at the largest width."""
    slopes, errors = (evidence.records(f"{name}_summary", gamma=SMALL) for name in ("exponents", "inner_products"))
    if not slopes or not errors:
        return number(None), number(None)
    text = f"{interval_text(*interval_of(slopes[0]))}, at most {number(slopes[0]['predicted'])} by Eq. 13"
    return text, number(max(errors, key=lambda row: row["d_model"])["relative"])


def caption_inner_products(evidence: Evidence) -> Caption:
    """Caption of Eq. 13, with the exponent at the small initialisation."""
    exponent, relative = _of_small(evidence)
    return Caption(
        "The largest difference, over pairs of reasoning anchors, between the inner product of two embeddings and that "
        "of Theorem 1's approximation (Eq. 12), in fresh one-layer models of growing width after one full-batch step. "
        "Dots are seeds, lines their geometric mean; dashed lines start at the same place with the slope 1 − γ of Eq. "
        "13. Right: the fitted slope, every seed, with mean and 95 % interval, and the predicted one dashed. Eq. 13 is "
        f"an upper bound: a smaller slope agrees with it. At γ = {SMALL:g} the exponent is {exponent}; the error is "
        f"{relative} times the mean size of the inner products at the largest width.",
        "seeds above the dashed line on the right, in the red area: then the error grows faster with d_model than "
        "Eq. 13 allows. The exponents were read from flattened print, so that a misfit may also be our reading. No "
        "claim is judged on it.",
    )


def draw_lemma_1(evidence: Evidence) -> Figure:
    """Share of initialisations with uniform attention against the rate, one line per width."""
    table = evidence.table("lemma_1")
    figure = new_figure(3.1, 5.6)
    axes = figure.subplots()
    widths = sorted(table["d_model"].astype(int).unique().tolist())
    for at, d_model in enumerate(widths):
        rows = evidence.table("lemma_1", d_model=d_model).sort_values("gamma")
        colour = ATTENTION(0.35 + 0.65 * at / max(len(widths) - 1, 1))
        x = rows["gamma"] + 0.006 * (at - (len(widths) - 1) / 2)
        look = {"color": colour, "marker": MARKERS[at % len(MARKERS)], "ms": 3.8, "mfc": "white", "lw": 1.3}
        axes.plot(x, rows["share"], **look, label=f"d_model = {d_model}", zorder=3)
        axes.vlines(x, rows["low"], rows["high"], color=colour, lw=1.1, zorder=2)
    tolerance = float(table["tolerance"].iloc[0])
    level_line(axes, 1 - tolerance, f"1 − ε = {1 - tolerance:.2f}", x=0.02)
    axes.set_xticks(sorted(table["gamma"].astype(float).unique()))
    axes.set_ylim(-0.03, 1.06)
    axes.set_xlabel("rate γ  (→ smaller initialisation)")
    axes.set_ylabel(f"share with |A$_{{ij}}$ − 1/i| ≤ {tolerance:g}")
    legend.panel(axes, "center right")
    return figure


def caption_lemma_1(evidence: Evidence) -> Caption:
    """Caption of Lemma 1, with the rate from which on attention is uniform."""
    first = evidence.table("lemma_1").iloc[0]
    reached = "; ".join(
        f"{'none of the rates' if gamma != gamma else f'γ = {gamma:g}'} at d_model = {number(int(d_model))}"
        for d_model, gamma in evidence.table("lemma_1_reached")[["d_model", "gamma"]].to_numpy()
    )
    return Caption(
        f"Share of {number(int(first['n_init']))} fresh initialisations at each rate and width whose attention is "
        f"within ε = {first['tolerance']:g} of 1/i in every entry, with Clopper-Pearson 95 % intervals. Lemma 1 says "
        "that for large enough γ this share is at least 1 − ε (dashed). Smallest rate from which on the whole interval "
        f"is: {reached}. Points of several widths stand beside each other for legibility.",
        "shares that fall as γ grows, or a line that stays below the dashed one at every rate. The lemma does not say "
        "how large γ must be, so a late rise refutes nothing. No claim of this study is judged on it.",
    )
