"""Figs. 5C and 5D of paper 1: real cosines and those of Theorem 1 (Eq. 14)."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures import legend
from rb_interp.figures.embedding import WRITE_UP_TO, anchor_cosines, scatter_tokens
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import seeds_text, two_digits
from rb_interp.figures.panels import over_seeds, try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import INK, TRAINED, new_figure


def draw_theory(evidence: Evidence) -> Figure:
    """Theoretical cosine matrix, one of its rows with the real one, and the theory's principal components."""
    evidence.require(SMALL)
    figure = new_figure(2.75)
    for axes, draw in zip(figure.subplots(1, 3), (_matrix, _middle_row, _theory_pca), strict=True):
        try_panel(axes, draw, evidence)
    return figure


def _matrix(axes: Axes, evidence: Evidence) -> None:
    _, matrix = evidence.first("geometry", "theory_cos_matrix", SMALL, stage="final")
    anchor_cosines(axes, matrix, evidence.task.tokens("reasoning_anchor"))
    if len(matrix) > WRITE_UP_TO:
        axes.figure.colorbar(axes.images[0], ax=axes, label="cosine", location="bottom", shrink=0.8, aspect=25)
    axes.set_xlabel("reasoning anchor (token)")
    axes.set_title("theory (Eq. 14): cosines")


def middle_anchor(evidence: Evidence) -> tuple[int, int]:
    """Place and token of the middle reasoning anchor, 15 in the paper's range 11 to 20."""
    tokens = evidence.task.tokens("reasoning_anchor")
    place = (len(tokens) - 1) // 2
    return place, int(tokens[place])


def _middle_row(axes: Axes, evidence: Evidence) -> None:
    tokens, (place, token) = evidence.task.tokens("reasoning_anchor"), middle_anchor(evidence)
    _, theory = evidence.first("geometry", "theory_cos_matrix", SMALL, stage="final")
    real = evidence.array("geometry", "cos_reasoning_matrix", SMALL, stage="final")
    rows = np.stack([matrix[place] for matrix in real.values()])
    mean, low, high = (
        evidence.mean_array("geometry", "cos_reasoning_matrix", SMALL, stage="final", end=end)[place]
        for end in ("mean", "low", "high")
    )
    axes.plot(tokens, rows.T, color=TRAINED, lw=0.6, alpha=0.5)
    axes.fill_between(tokens, low, high, color=TRAINED, alpha=0.18, lw=0)
    axes.plot(tokens, mean, "-D", color=TRAINED, ms=3.5, lw=1.6, label=f"trained, {seeds_text(len(rows))}")
    axes.plot(tokens, theory[place], "--o", color=INK, ms=3, lw=1.2, label="theory")
    axes.set_ylim(min(0.0, float(min(rows.min(), theory[place].min(), *low[np.isfinite(low)])) - 0.05), 1.05)
    axes.set_xticks(tokens if len(tokens) <= WRITE_UP_TO else tokens[::2])
    axes.set(xlabel="reasoning anchor s", ylabel=f"cos(w$_{{{token}}}$, w$_s$)")
    axes.set_title(f"anchor {token} and the others")
    legend.panel(axes, "lower center")


def _theory_pca(axes: Axes, evidence: Evidence) -> None:
    names = ("pca_theory", "pca_theory_tokens", "pca_theory_group")
    points, tokens, group = (evidence.first("geometry", name, SMALL, stage="final")[1] for name in names)
    scatter_tokens(axes, points, tokens.astype(int), group.astype(int))
    axes.set(xlabel="PC 1 (no unit)", ylabel="PC 2 (no unit)")
    axes.set_title("theory: keys, reasoning anchors")


def caption_theory(evidence: Evidence, judged: str, least: float | None = None) -> Caption:
    """Caption of the comparison with Theorem 1.

    Args:
        judged: the claim, as it is called in brackets. least: its threshold, in a study that does not judge it.
    """
    least = evidence.threshold(judged) if least is None else least
    return Caption(
        "Left: cosines of the embeddings that Eq. 14 predicts, without noise. Middle: cosines of anchor "
        f"{middle_anchor(evidence)[1]} with every reasoning anchor at γ = {SMALL:g}, end of training; thin lines are "
        "seeds, the band is the 95 % interval of their mean. Right: principal components of the predicted embeddings, "
        "keys yellow, reasoning anchors brown. Over all pairs of reasoning anchors, real and predicted cosines "
        f"correlate with {over_seeds(evidence, 'geometry', 'theory', SMALL)} (Pearson, all seeds).",
        "a trained curve without the peak of the dashed one, that is a correlation below "
        f"{two_digits(least)} ({judged}). The level of the curves is free in the theory "
        "(its constants depend on the training), so a difference in "
        "height refutes nothing.",
    )
