"""Figs. 3B, 4A and 5C-D of paper 1 on Emb-MLP: the anchor study's figures on the part ``sweep``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matplotlib.figure import Figure

from rb_interp.figures.bias import caption_bias, draw_bias
from rb_interp.figures.embedding import caption_pca, draw_cosines, draw_pca
from rb_interp.figures.evidence import SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.learning import caption_learning, draw_learning
from rb_interp.figures.panels import Caption, over_seeds, sentence_figure
from rb_interp.figures.parts import part_of
from rb_interp.figures.style import styled
from rb_interp.figures.theory import caption_theory, draw_theory

PART = "sweep"
STAGES = ("init", "early", "late")


@styled
def on_sweep(evidence: Evidence, draw: Callable[..., Figure], **options: Any) -> Figure:
    """A figure of the anchor study drawn on the part ``sweep``, or a sentence where the study lacks it."""
    try:
        return draw(part_of(evidence, PART), **options)
    except MissingEvidenceError as missing:
        return sentence_figure(str(missing))


def caption_on_sweep(evidence: Evidence, caption: Callable[..., Caption], **options: Any) -> Caption:
    """The caption that goes with ``on_sweep``."""
    try:
        return caption(part_of(evidence, PART), **options)
    except MissingEvidenceError as missing:
        return Caption(str(missing), "what this figure would show.")


def draw_emb_learning(evidence: Evidence) -> Figure:
    """Loss and accuracy of Emb-MLP, one column per rate (after Fig. 3B)."""
    return on_sweep(evidence, draw_learning)


def caption_emb_learning(evidence: Evidence) -> Caption:
    """Caption of Emb-MLP's learning curves."""
    told = caption_on_sweep(evidence, caption_learning, family="B")
    model = "Emb-MLP with AdamW; its memory labels do not depend on the order of the anchors, which it cannot see. "
    return Caption(model + told.seen, told.would_refute)


def draw_emb_bias(evidence: Evidence) -> Figure:
    """Bias index of Emb-MLP against the rate."""
    return on_sweep(evidence, draw_bias, family="B")


def caption_emb_bias(evidence: Evidence) -> Caption:
    """Caption of Emb-MLP's bias index."""
    return caption_on_sweep(evidence, caption_bias, family="B")


def draw_emb_cosines(evidence: Evidence) -> Figure:
    """Cosines between Emb-MLP's anchor embeddings, untrained, early and late (after Fig. 4A)."""
    return on_sweep(evidence, draw_cosines, stages=STAGES)


def caption_emb_cosines(evidence: Evidence) -> Caption:
    """Caption of Emb-MLP's cosine matrices, with the numbers that T3 judges."""
    return caption_on_sweep(evidence, _cosines)


def _cosines(sweep: Evidence) -> Caption:
    def told(quantity: str, stage: str) -> str:
        return over_seeds(sweep, "geometry", quantity, SMALL, stage=stage)

    return Caption(
        "Cosines between the embeddings of memory anchors (top) and of reasoning anchors (bottom) of Emb-MLP at γ = "
        f"{SMALL:g}, seed {min(sweep.seeds, default=0)} (the lowest): untrained, after 5 % and after 90 % of the steps "
        "(the paper shows epochs 50 and 900 of 1000). Over all seeds the mean cosine of memory anchors is "
        f"{told('cos_memory', 'early')} early and {told('cos_memory', 'late')} late; the rank correlation of distance "
        f"and cosine among reasoning anchors is {told('order_rho', 'early')} early and {told('order_rho', 'late')} "
        "late. Crossed cells are undefined.",
        "early or late, memory anchors with a mean cosine below .50, or reasoning cosines that do not fall with "
        "distance from the diagonal (Spearman above −.80): T3. The same pattern in the untrained model would show that "
        "training has nothing to do with it.",
    )


def draw_emb_pca(evidence: Evidence) -> Figure:
    """Principal components of Emb-MLP's embedding."""
    return on_sweep(evidence, draw_pca)


def caption_emb_pca(evidence: Evidence) -> Caption:
    """Caption of the principal components of Emb-MLP's embedding; no claim of this study judges them."""
    return _unjudged(caption_on_sweep(evidence, caption_pca), "E3")


def draw_emb_theory(evidence: Evidence) -> Figure:
    """Emb-MLP's cosines beside those of Theorem 1 (after Figs. 5C and 5D)."""
    return on_sweep(evidence, draw_theory)


def caption_emb_theory(evidence: Evidence) -> Caption:
    """Caption of the comparison with Theorem 1; no claim of this study judges it."""
    return _unjudged(caption_on_sweep(evidence, caption_theory), "E6")


def _unjudged(caption: Caption, claim: str) -> Caption:
    """The caption with a claim of the anchor study named as what it is, the transformer's."""
    told = caption.would_refute.replace(f"({claim})", f"({claim} of the anchor study, not judged here)")
    return Caption(caption.seen, told)
