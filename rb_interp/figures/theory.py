"""Figs. 5C and 5D of paper 1: real cosines beside those of Theorem 1 (Eq. 14)."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.figures.embedding import WRITE_UP_TO, scatter_tokens
from rb_interp.figures.evidence import SMALL, Evidence
from rb_interp.figures.numbers import seeds_text
from rb_interp.figures.panels import (
    Caption,
    heat_map,
    over_seeds,
    seed_interval,
    sentence_figure,
    try_panel,
    two_digits,
)
from rb_interp.figures.style import INK, REASONING, new_figure, styled


@styled
def draw_theory(evidence: Evidence) -> Figure:
    """Theoretical cosine matrix, one of its rows beside the real one, and the theory's principal components."""
    if evidence.lacks(SMALL):
        return sentence_figure(evidence.lacks(SMALL))
    figure = new_figure(2.75)
    panels = figure.subplots(1, 3)
    for axes, draw in zip(panels, (_matrix, _middle_row, _theory_pca), strict=True):
        try_panel(axes, draw, evidence)
    return figure


def _matrix(axes: Axes, evidence: Evidence) -> None:
    _, matrix = evidence.first("geometry", "theory_cos_matrix", SMALL, stage="final")
    tokens = evidence.task.tokens("reasoning_anchor")
    image = heat_map(axes, matrix, tokens, write=two_digits if len(matrix) <= WRITE_UP_TO else None, text=48.0)
    if len(matrix) > WRITE_UP_TO:
        axes.figure.colorbar(image, ax=axes, label="cosine", location="bottom", shrink=0.8, aspect=25)
    axes.set_xlabel("reasoning anchor (token)")
    axes.set_title("theory (Eq. 14): cosines")


def middle_anchor(evidence: Evidence) -> tuple[int, int]:
    """Place and token of the middle reasoning anchor, 15 in the paper's range 11 to 20."""
    tokens = evidence.task.tokens("reasoning_anchor")
    place = (len(tokens) - 1) // 2
    return place, int(tokens[place])


def _middle_row(axes: Axes, evidence: Evidence) -> None:
    _, theory = evidence.first("geometry", "theory_cos_matrix", SMALL, stage="final")
    real = evidence.array("geometry", "cos_reasoning_matrix", SMALL, stage="final")
    place, token = middle_anchor(evidence)
    tokens = evidence.task.tokens("reasoning_anchor")
    rows = np.stack([matrix[place] for matrix in real.values()])
    axes.plot(tokens, rows.T, color=REASONING, lw=0.6, alpha=0.5)
    mean, low, high = (np.array(column) for column in zip(*(seed_interval(at) for at in rows.T), strict=True))
    axes.fill_between(tokens, low, high, color=REASONING, alpha=0.18, lw=0)
    axes.plot(tokens, mean, "-D", color=REASONING, ms=3.5, lw=1.6, label=f"trained, {seeds_text(len(rows))}")
    axes.plot(tokens, theory[place], "--o", color=INK, ms=3, lw=1.2, label="theory")
    axes.set_ylim(min(0.0, float(min(rows.min(), theory[place].min(), *low[np.isfinite(low)])) - 0.05), 1.05)
    axes.set_xticks(tokens if len(tokens) <= WRITE_UP_TO else tokens[::2])
    axes.set_xlabel("reasoning anchor s")
    axes.set_ylabel(f"cos(w$_{{{token}}}$, w$_s$)")
    axes.set_title(f"anchor {token} and the others")
    axes.legend(loc="lower center")


def _theory_pca(axes: Axes, evidence: Evidence) -> None:
    _, points = evidence.first("geometry", "pca_theory", SMALL, stage="final")
    _, tokens = evidence.first("geometry", "pca_theory_tokens", SMALL, stage="final")
    _, group = evidence.first("geometry", "pca_theory_group", SMALL, stage="final")
    scatter_tokens(axes, points, tokens.astype(int), group.astype(int))
    axes.set_xlabel("PC 1 (no unit)")
    axes.set_ylabel("PC 2 (no unit)")
    axes.set_title("theory: keys, reasoning anchors")


def caption_theory(evidence: Evidence) -> Caption:
    """Caption of the comparison with Theorem 1."""
    text = over_seeds(evidence, "geometry", "theory", SMALL)
    _, token = middle_anchor(evidence)
    return Caption(
        f"Left: cosines of the embeddings that Eq. 14 predicts, without noise. Middle: cosines of anchor {token} "
        f"with every reasoning anchor at γ = {SMALL:g}, end of training; thin lines are seeds, the band is the 95 % "
        "interval of their mean. Right: principal components of the predicted embeddings, keys orange, reasoning "
        f"anchors green. Over all pairs of reasoning anchors, real and predicted cosines correlate with {text} "
        "(Pearson, all seeds).",
        "a green curve without the peak of the black one, that is a correlation below .90 (E6). The level of the "
        "curves is free in the theory (its constants depend on the training), so a difference in height refutes "
        "nothing.",
    )
