"""Eq. 13 and Lemma 1 of paper 1 on fresh models of growing width."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from rb_interp.figures.evidence import SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.numbers import interval_text, number
from rb_interp.figures.panels import Caption, seed_interval, seeds_at, sentence_figure, try_panel
from rb_interp.figures.parts import gammas_of, level_line, rows_of
from rb_interp.figures.style import ATTENTION, INK, MARKERS, gamma_colour, gamma_marker, new_figure, styled


@styled
def draw_inner_products(evidence: Evidence) -> Figure:
    """Largest error of predicted inner products against d_model (left), its exponent beside 1 - gamma (right)."""
    try:
        gammas = gammas_of(evidence, "inner_products")
    except MissingEvidenceError as missing:
        return sentence_figure(str(missing))
    figure = new_figure(3.4)
    errors, slopes = figure.subplots(1, 2, width_ratios=(1.15, 1))
    try_panel(errors, _errors, evidence, gammas)
    try_panel(slopes, _exponents, evidence)
    handles = [
        Line2D([], [], color=gamma_colour(g, gammas), marker=gamma_marker(g, gammas), ms=4, mfc="white", lw=1.4,
               label=f"γ = {g:g}")
        for g in gammas
    ]  # fmt: skip
    handles.append(Line2D([], [], color=INK, ls=(0, (3, 1.5)), lw=0.9, label="slope 1 − γ (Eq. 13)"))
    figure.legend(handles=handles, loc="outside upper center", ncols=5)
    return figure


def _errors(axes: Axes, evidence: Evidence, gammas: list[float]) -> None:
    widths: set[int] = set()
    for gamma in gammas:
        table = rows_of(evidence, "inner_products", gamma=gamma).pivot_table(
            index="d_model", columns="seed", values="error"
        )
        d_model, colour = table.index.to_numpy(dtype=float), gamma_colour(gamma, gammas)
        widths |= set(table.index.astype(int))
        mean = np.exp(np.log(table).mean(axis=1)).to_numpy()
        axes.plot(d_model, table.to_numpy(), gamma_marker(gamma, gammas), ms=3, mfc="white", mec=colour, mew=0.7)
        axes.plot(d_model, mean, color=colour, lw=1.4, zorder=3)
        guide = mean[0] * (d_model / d_model[0]) ** (1 - gamma)
        axes.plot(d_model, guide, color=colour, lw=0.9, ls=(0, (3, 1.5)), zorder=2)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(FixedLocator(sorted(widths)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _place: f"{value:,.0f}")
    axes.set_xlabel("d_model (log scale)")
    axes.set_ylabel("largest error of an inner product\n(embedding units squared, log scale)")
    axes.set_title("error")


def _exponents(axes: Axes, evidence: Evidence) -> None:
    gammas = gammas_of(evidence, "exponents")
    predicted, seen = [], []
    for place, gamma in enumerate(gammas):
        rows = rows_of(evidence, "exponents", gamma=gamma).sort_values("seed")
        values = rows["exponent"].astype(float).dropna().to_numpy()
        seen += values.tolist()
        predicted.append(float(rows["predicted"].iloc[0]))
        seeds_at(axes, float(place), values, gamma_colour(gamma, gammas), gamma_marker(gamma, gammas))
    axes.plot(range(len(gammas)), predicted, color=INK, ls=(0, (3, 1.5)), lw=0.9, zorder=1)
    low, top = min(*seen, *predicted) - 0.15, max(*seen, *predicted) + 0.15
    axes.fill_between(range(len(gammas)), predicted, top, color="#fbeeee", lw=0, zorder=0)
    axes.set_ylim(low, top)
    axes.text(0.98, 0.97, "grows faster than the bound", transform=axes.transAxes, ha="right", va="top", fontsize=6.5,
              color="#8a3b35")  # fmt: skip
    axes.set_xticks(range(len(gammas)), [f"{gamma:g}" for gamma in gammas])
    axes.set_xlim(-0.5, len(gammas) - 0.4)
    axes.set_xlabel("rate γ  (→ smaller initialisation)")
    axes.set_ylabel("exponent of d_model (no unit)")
    axes.set_title("slope of each line on the left")


def _exponent_text(evidence: Evidence, gamma: float) -> str:
    try:
        rows = rows_of(evidence, "exponents", gamma=gamma)
    except MissingEvidenceError:
        return number(None)
    found = interval_text(*seed_interval(rows["exponent"].astype(float).dropna()))
    return f"{found}, at most {number(float(rows['predicted'].iloc[0]))} by Eq. 13"


def _relative(evidence: Evidence, gamma: float) -> str:
    """Error over the products' own size at the largest width, mean over seeds."""
    try:
        rows = rows_of(evidence, "inner_products", gamma=gamma)
    except MissingEvidenceError:
        return number(None)
    rows = rows.loc[rows["d_model"] == rows["d_model"].max()]
    return number(float((rows["error"] / rows["scale"]).mean()))


def caption_inner_products(evidence: Evidence) -> Caption:
    """Caption of Eq. 13, with the exponent at the small initialisation."""
    return Caption(
        "The largest difference, over pairs of reasoning anchors, between the inner product of two embeddings and that "
        "of Theorem 1's approximation (Eq. 12), in fresh one-layer models of growing width after one full-batch step. "
        "Dots are seeds, lines their "
        "geometric mean; dashed lines start at the same place with the slope 1 − γ of Eq. 13. Right: the fitted "
        "slope, every seed, with mean and 95 % interval, and the predicted one dashed. Eq. 13 is an upper bound: a "
        f"smaller slope agrees with it. At γ = {SMALL:g} the exponent is {_exponent_text(evidence, SMALL)}; the error "
        f"is {_relative(evidence, SMALL)} times the mean size of the inner products at the largest width.",
        "seeds above the dashed line on the right, in the red area: then the error grows faster with d_model than "
        "Eq. 13 allows. The exponents were read from flattened print, so that a misfit may also be our reading. No "
        "claim is judged on it.",
    )


@styled
def draw_lemma_1(evidence: Evidence) -> Figure:
    """Share of initialisations with uniform attention against the rate, one line per width."""
    try:
        table = rows_of(evidence, "lemma_1")
    except MissingEvidenceError as missing:
        return sentence_figure(str(missing))
    figure = new_figure(3.1, 5.6)
    axes = figure.subplots()
    widths = sorted(table["d_model"].astype(int).unique().tolist())
    for at, d_model in enumerate(widths):
        rows = rows_of(evidence, "lemma_1", d_model=d_model).sort_values("gamma")
        colour = ATTENTION(0.35 + 0.65 * at / max(len(widths) - 1, 1))
        x = rows["gamma"].to_numpy(dtype=float) + 0.006 * (at - (len(widths) - 1) / 2)
        share, low, high = (rows[name].to_numpy(dtype=float) for name in ("share", "low", "high"))
        axes.plot(x, share, color=colour, marker=MARKERS[at % len(MARKERS)], ms=3.8, mfc="white", lw=1.3,
                  label=f"d_model = {d_model}", zorder=3)  # fmt: skip
        axes.vlines(x, low, high, color=colour, lw=1.1, zorder=2)
    tolerance = float(table["tolerance"].iloc[0])
    level_line(axes, 1 - tolerance, f"1 − ε = {1 - tolerance:.2f}", x=0.02)
    axes.set_xticks(sorted(table["gamma"].astype(float).unique()))
    axes.set_ylim(-0.03, 1.06)
    axes.set_xlabel("rate γ  (→ smaller initialisation)")
    axes.set_ylabel(f"share with |A$_{{ij}}$ − 1/i| ≤ {tolerance:g}")
    axes.legend(loc="center right")
    return figure


def _reached(evidence: Evidence) -> str:
    """Smallest rate from which on the whole interval is at least 1 - eps, for each width."""
    try:
        table = rows_of(evidence, "lemma_1")
    except MissingEvidenceError:
        return number(None)
    found = []
    for d_model, rows in table.sort_values("gamma").groupby("d_model"):
        level = 1 - float(rows["tolerance"].iloc[0])
        below = rows.loc[rows["low"] < level, "gamma"]
        later = rows if below.empty else rows.loc[rows["gamma"] > below.max()]
        start = "none of the rates" if later.empty else f"γ = {float(later['gamma'].iloc[0]):g}"
        found.append(f"{start} at d_model = {number(int(str(d_model)))}")
    return "; ".join(found)


def caption_lemma_1(evidence: Evidence) -> Caption:
    """Caption of Lemma 1, with the rate from which on attention is uniform."""
    try:
        table = rows_of(evidence, "lemma_1")
        n, tolerance = number(int(table["n_init"].iloc[0])), f"{float(table['tolerance'].iloc[0]):g}"
    except MissingEvidenceError:
        n = tolerance = number(None)
    return Caption(
        f"Share of {n} fresh initialisations at each rate and width whose attention is within ε = {tolerance} of "
        "1/i in every entry, with Clopper-Pearson 95 % intervals. Lemma 1 says that for large enough γ this share "
        f"is at least 1 − ε (dashed). Smallest rate from which on the whole interval is: {_reached(evidence)}. Points "
        "of several widths stand beside each other for legibility.",
        "shares that fall as γ grows, or a line that stays below the dashed one at every rate. The lemma does not say "
        "how large γ must be, so a late rise refutes nothing. No claim of this study is judged on it.",
    )
