"""Is what a small initialisation learns of low rank? (paper 1, "Low rank vs condensation"), on text."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rb_interp.figures.evidence import SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.language_cosines import group_names
from rb_interp.figures.language_evidence import by_rate, stand_in_note, told
from rb_interp.figures.panels import Caption, gamma_axis, offsets, seed_interval, seeds_at, try_panel
from rb_interp.figures.style import CORPUS_COLOURS, CORPUS_MARKERS, GREY, INK, gamma_colour, new_figure, styled

ALL = {"all": (INK, "^")}
GROUPS = {**{name: (CORPUS_COLOURS[name], CORPUS_MARKERS[name]) for name in CORPUS_COLOURS}, **ALL}
SHIFTS = (-0.38, -0.16, 0.06, 0.28)
LEADING = (1, 3, 10)
MATRICES = {"W_QK": "W$_{QK}$", "W_OV": "W$_{OV}$", "W_in": "W$_{in}$", "W_out": "W$_{out}$"}


@styled
def draw_embedding_rank(evidence: Evidence) -> Figure:
    """Participation ratio beside the twin's, leading shares of the variance, and stable ranks of the weights."""
    figure = new_figure(3.1, 7.8)
    ratio, shares, weights = figure.subplots(1, 3, width_ratios=(1.15, 1, 1.15))
    try_panel(ratio, _ratio, evidence)
    ratio.set_title("embeddings: effective directions,\nfinal over untrained")
    try_panel(shares, _shares, evidence)
    shares.set_title("all tokens in use: variance along\nthe leading directions, final")
    try_panel(weights, _weights, evidence)
    weights.set_title("first layer: stable rank,\nfinal over untrained")
    figure.legend(handles=_legend(evidence), loc="outside upper center", ncols=4)
    return figure


def _read(evidence: Evidence, quantity: str, gamma: float, column: str = "value"):
    return evidence.values("embedding_rank", quantity, gamma, column=column)


def _ratio(axes: Axes, evidence: Evidence) -> None:
    drawn = 0
    for (group, (colour, marker)), shift in zip(GROUPS.items(), SHIFTS, strict=True):
        for place, gamma in enumerate(evidence.gammas):
            try:
                values = _read(evidence, f"participation_ratio_{group}", gamma)
            except MissingEvidenceError:
                continue
            drawn += 1
            seeds_at(axes, place + shift, values, colour, marker, spread=0.035)
    if not drawn:
        raise MissingEvidenceError("This run has no reading of embedding_rank at stage final.")
    axes.axhline(1, color=GREY, lw=0.8, zorder=0)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("participation ratio / the untrained twin's")
    gamma_axis(axes, evidence)


def _shares(axes: Axes, evidence: Evidence) -> None:
    drawn = 0
    for gamma, shift in zip(evidence.gammas, offsets(len(evidence.gammas), 0.22), strict=True):
        colour, twins = gamma_colour(gamma, evidence.gammas), []
        for place, leading in enumerate(LEADING):
            try:
                values = _read(evidence, f"share_{leading}_all", gamma)
            except MissingEvidenceError:
                continue
            drawn += 1
            seeds_at(axes, place + shift, values, colour, spread=0.035)
            twins.append(evidence.twin("embedding_rank", f"share_{leading}_all", gamma))
            axes.plot([place + shift - 0.06, place + shift + 0.1], [twins[-1]] * 2, color=GREY, lw=1.6, zorder=1)
    if not drawn:
        raise MissingEvidenceError("This run has no shares of embedding_rank at stage final.")
    axes.set_xticks(range(len(LEADING)), ["the first", "the first 3", "the first 10"])
    axes.set_xlim(-0.5, len(LEADING) - 0.5)
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("share of the centred variance")


def stable_ratio(evidence: Evidence, matrix: str, gamma: float) -> list[float]:
    """Stable rank of a matrix of the first layer over its untrained twin's, by seed; MissingEvidenceError if unread."""
    value, twin = (_read(evidence, f"stable_rank_{matrix}", gamma, column) for column in ("value", "twin"))
    return (value / twin).dropna().tolist()


def _weights(axes: Axes, evidence: Evidence) -> None:
    drawn = 0
    for gamma, shift in zip(evidence.gammas, offsets(len(evidence.gammas), 0.25), strict=True):
        for place, matrix in enumerate(MATRICES):
            try:
                values = stable_ratio(evidence, matrix, gamma)
            except MissingEvidenceError:
                continue
            drawn += 1
            seeds_at(axes, place + shift, values, gamma_colour(gamma, evidence.gammas), spread=0.035)
    if not drawn:
        raise MissingEvidenceError("This run has no stable ranks at stage final.")
    axes.axhline(1, color=GREY, lw=0.8, zorder=0)
    axes.set_xticks(range(len(MATRICES)), list(MATRICES.values()))
    axes.set_xlim(-0.5, len(MATRICES) - 0.5)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("stable rank / the untrained twin's")


def _legend(evidence: Evidence) -> list[Line2D]:
    def mark(colour: object, marker: str, label: str) -> Line2D:
        return Line2D([], [], ls="", marker=marker, ms=4, mfc="white", mec=colour, label=label)

    words = {**group_names(evidence), "all": "all tokens in use"}
    found = [mark(colour, marker, words[group]) for group, (colour, marker) in GROUPS.items()]
    found += [mark(gamma_colour(g, evidence.gammas), "o", f"γ = {g:g}") for g in evidence.gammas]
    return [*found, Line2D([], [], color=GREY, lw=1.6, label="untrained twins")]


def random_ratio(evidence: Evidence, group: str, gamma: float) -> str:
    """What as many random vectors would have, over the untrained twin's (the null's mean); ``n/a`` where not read."""
    try:
        values = evidence.values("embedding_rank", f"participation_ratio_{group}", gamma, column="null_mean")
    except MissingEvidenceError:
        return "n/a"
    return f"{seed_interval(values).estimate:.2f}"


def caption_embedding_rank(evidence: Evidence) -> Caption:
    """Caption of the ranks of embedding and weights."""
    return Caption(
        "Left: participation ratio, (Σλ)² / Σλ² of the spectrum of the centred embeddings, over that of the same "
        "model untrained: 1 is no change, less is fewer directions (dots: seeds, bars: mean with 95 % interval). All "
        f"tokens in use: {by_rate(evidence, 'embedding_rank', 'participation_ratio_all')} (random vectors at γ = "
        f"{SMALL:g}: {random_ratio(evidence, 'all', SMALL)}). Corpora differ in how many typical tokens they have, so "
        "only PrOntoQA and its matched tokens can be compared with each other: at γ = "
        f"{SMALL:g} {told(evidence, 'embedding_rank', 'participation_ratio_prontoqa', SMALL)} and "
        f"{told(evidence, 'embedding_rank', 'participation_ratio_control', SMALL)}. Middle: share of the variance "
        "along the leading directions. Right: stable rank, squared Frobenius norm over squared largest singular value "
        "(W_QK and W_OV: mean over heads). A small start is soon outweighed by the first few directions and a large "
        "one hides as many under its noise, so a low rank tells how far a model has moved."
        f"{stand_in_note(evidence)}",
        f"at γ = {SMALL:g}, ratios that are not below those at larger initialisations: a small initialisation would "
        "not give low rank. No claim is judged on this figure.",
    )
