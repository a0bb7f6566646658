"""Fig. 14 of paper 1: with a large initialisation, tokens stay about as orthogonal as random vectors.

Beside it the caption of Fig. 5A, whose matrices of cosines several studies draw.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.claims.learning_order import LARGE, SMALL
from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import seeds_text, two_digits
from rb_interp.figures.panels import by_gamma, heat_map, note, over_seeds, seeds_by_gamma, threshold_at, try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import GREY, INK, new_figure


def draw_orthogonality(evidence: Evidence) -> Figure:
    """Cosines among all tokens at the large and the small initialisation, beside random vectors (after Fig. 14)."""
    figure = new_figure(2.5)
    panels = figure.subplots(1, 3)
    for axes, gamma in zip(panels, (LARGE, SMALL), strict=False):
        try_panel(axes, _all_cosines, evidence, gamma)
    images = [axes.images[0] for axes in panels[:2] if axes.images]
    if images:
        figure.colorbar(images[0], ax=list(panels[:2]), label="cosine", shrink=0.8, aspect=22)
    try_panel(panels[2], _absolute_cosine, evidence)
    panels[2].set_title("all tokens, final")
    return figure


def _all_cosines(axes: Axes, evidence: Evidence, gamma: float) -> None:
    seed, matrix = evidence.first("geometry", "cos_all_matrix", gamma, stage="final")
    tokens, group = (evidence.first("geometry", name, gamma, stage="final")[1] for name in ("tokens", "group"))
    block = np.array([2, 0, 1])[group.astype(int)]  # memory, reasoning, keys: as their token values ascend
    order = np.lexsort((tokens, block))
    heat_map(axes, matrix[np.ix_(order, order)])
    edges = np.flatnonzero(np.diff(block[order])) + 0.5
    for edge in edges:
        axes.axhline(edge, color=INK, lw=0.6)
        axes.axvline(edge, color=INK, lw=0.6)
    bounds = np.concatenate([[-0.5], edges, [len(order) - 0.5]])
    names = [("memory", "reason.", "keys")[which] for which in np.unique(block)]
    axes.set_xticks((bounds[:-1] + bounds[1:]) / 2, names, rotation=90)
    axes.set_yticks((bounds[:-1] + bounds[1:]) / 2, names)
    axes.set_title(f"γ = {gamma:g}, final, seed {seed}")


def _absolute_cosine(axes: Axes, evidence: Evidence) -> None:
    seeds_by_gamma(axes, evidence, "geometry", "abs_cos")
    expected = float(next(iter(by_gamma(evidence, "geometry", "abs_cos_random").values())).iloc[0])
    axes.axhline(expected, color=GREY, lw=0.7, ls=(0, (1, 2)), zorder=0)
    look = {"xytext": (0, -2), "ha": "right", "va": "top", "color": "#555555"}
    note(axes, "random vectors", (0.99, expected), axes.get_yaxis_transform(), **look)
    times = evidence.threshold("E4")
    threshold_at(axes, evidence, LARGE, times * expected, f"E4: ≤ {times:g} ×")
    legend.panel(axes, "upper left", [legend.untrained()], handlelength=1)
    axes.set_ylim(0, axes.get_ylim()[1] * 1.15)
    axes.set_ylabel("mean |cos| of two tokens")


def caption_orthogonality(evidence: Evidence) -> Caption:
    """Caption of the near-orthogonality figure."""
    return Caption(
        f"Cosines among all tokens in use at the end, at γ = {LARGE:g} (left) and γ = {SMALL:g} (middle), lowest "
        "seed; tokens ascend within memory anchors, reasoning anchors and keys. Right: mean absolute cosine off "
        f"the diagonal for {seeds_text(len(evidence.seeds))} beside its expectation for random vectors in d_model "
        f"dimensions (dots: seeds, bars: median and range); at γ = {LARGE:g} it is "
        f"{over_seeds(evidence, 'geometry', 'abs_cos_ratio', LARGE)} times the expectation.",
        f"seeds at γ = {LARGE:g} above the dashed line (E4): the embedding would not be near-orthogonal; at γ = "
        f"{SMALL:g} a mean of {two_digits(evidence.threshold('E5', 1))} or more, where all tokens share one direction "
        "(condensed rather than of low rank, E5).",
    )


def caption_cosines(evidence: Evidence) -> Caption:
    """Caption of the cosine matrices, with the numbers that E1 and E2 judge."""
    memory = over_seeds(evidence, "geometry", "cos_memory", SMALL, stage="half")
    order = over_seeds(evidence, "geometry", "order_rho", SMALL)
    return Caption(
        "Cosines between the embeddings of memory anchors (top) and of reasoning anchors (bottom) at γ = "
        f"{SMALL:g}, seed {min(evidence.seeds, default=0)} (the lowest): untrained, at half, and at the end. Over all "
        f"seeds the mean cosine of memory anchors is {memory} at half, and the rank correlation of "
        f"distance and cosine among reasoning anchors is {order} at the end. "
        "Crossed cells are undefined.",
        f"memory anchors that share no direction at half (mean cosine below {two_digits(evidence.threshold('E2'))}, "
        "E2); reasoning cosines that do not fall with distance from the diagonal at the end (Spearman above "
        f"{two_digits(evidence.threshold('E1'))}, E1); the same pattern in the untrained model.",
    )
