"""The list of figures: what each is called, how it is drawn, and what its caption says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.figure import Figure

from rb_interp.errors import ConfigError, nearest
from rb_interp.figures.ablations import caption_ablations, draw_ablations
from rb_interp.figures.agreement import caption_agreement, draw_agreement
from rb_interp.figures.agreement_end import caption_agreement_end, draw_agreement_end
from rb_interp.figures.bias import caption_bias, draw_bias
from rb_interp.figures.causes import caption_causes, draw_causes
from rb_interp.figures.circuits import caption_circuits, draw_circuits
from rb_interp.figures.composition import caption_composition, draw_composition
from rb_interp.figures.distributions import caption_distributions, draw_distributions
from rb_interp.figures.drift import caption_drift, draw_drift
from rb_interp.figures.dynamics import caption_dynamics, draw_dynamics
from rb_interp.figures.emb_mlp import (
    caption_emb_bias,
    caption_emb_cosines,
    caption_emb_learning,
    caption_emb_pca,
    caption_emb_theory,
    draw_emb_bias,
    draw_emb_cosines,
    draw_emb_learning,
    draw_emb_pca,
    draw_emb_theory,
)
from rb_interp.figures.embedding import caption_cosines, caption_pca, draw_cosines, draw_pca
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.first_layer import caption_first_layer, draw_first_layer
from rb_interp.figures.label_range import caption_label_range, draw_label_range
from rb_interp.figures.label_speed import caption_label_speed, draw_label_speed
from rb_interp.figures.language_attention import caption_text_attention, draw_text_attention
from rb_interp.figures.language_cosines import caption_token_cosines, draw_token_cosines
from rb_interp.figures.language_delta import caption_delta_loss, draw_delta_loss
from rb_interp.figures.language_loss import caption_language_loss, draw_language_loss
from rb_interp.figures.language_next_token import caption_next_token, draw_next_token
from rb_interp.figures.language_rank import caption_embedding_rank, draw_embedding_rank
from rb_interp.figures.language_similarity import caption_token_similarity, draw_token_similarity
from rb_interp.figures.language_skills import caption_skills, draw_skills
from rb_interp.figures.learning import caption_learning, draw_learning
from rb_interp.figures.orthogonality import caption_orthogonality, draw_orthogonality
from rb_interp.figures.panels import Caption
from rb_interp.figures.patching_matrix import caption_patching_matrix, draw_patching_matrix
from rb_interp.figures.routing import caption_routing, draw_routing
from rb_interp.figures.scaling import caption_inner_products, caption_lemma_1, draw_inner_products, draw_lemma_1
from rb_interp.figures.tasks import caption_tasks, draw_tasks
from rb_interp.figures.theory import caption_theory, draw_theory
from rb_interp.figures.value_flow import caption_value_flow, draw_value_flow


@dataclass(frozen=True)
class FigureSpec:
    """One figure.

    Attributes:
        id: file name without its ending. title: heading in the report.
        draw: Evidence -> Figure. caption: Evidence -> Caption.
        claims: ids of the claims that it bears on.
    """

    id: str
    title: str
    draw: Callable[[Evidence], Figure]
    caption: Callable[[Evidence], Caption]
    claims: tuple[str, ...] = ()


FIGURES = [
    FigureSpec("tasks", "Two mappings, one kind of input (after Fig. 2)", draw_tasks, caption_tasks),
    FigureSpec(
        "learning", "What is learned first (after Fig. 3A)", draw_learning, caption_learning, ("A1", "A2", "A3", "A5")
    ),
    FigureSpec("bias", "Bias index against initialisation rate", draw_bias, caption_bias, ("A1", "A2", "A4")),
    FigureSpec("circuits", "Which circuit each member learned", draw_circuits, caption_circuits),
    FigureSpec(
        "first_layer",
        "The first attention layer (after Fig. 6)",
        draw_first_layer,
        caption_first_layer,
        ("M1", "M2", "M3", "M4", "M5", "M6"),
    ),
    FigureSpec("routing", "Where the last position looks in layer 2", draw_routing, caption_routing, ("M7", "M7b")),
    FigureSpec("composition", "Key and sum of anchors", draw_composition, caption_composition, ("M8",)),
    FigureSpec(
        "causes",
        "Causes: interventions on each mechanism, beside their placebos",
        draw_causes,
        caption_causes,
        ("M1", "M2", "M3", "M4", "M5", "M6", "M7", "M7b", "M8", "M9", "M10"),
    ),
    FigureSpec("ablations", "What each component contributes", draw_ablations, caption_ablations),
    FigureSpec(
        "patching_matrix", "Where key and anchors travel (patching)", draw_patching_matrix, caption_patching_matrix
    ),
    FigureSpec("dynamics", "Order of events", draw_dynamics, caption_dynamics),
    FigureSpec("cosines", "Cosines of anchor embeddings (after Fig. 5A)", draw_cosines, caption_cosines, ("E1", "E2")),
    FigureSpec("pca", "Principal components of the embedding (after Fig. 5B)", draw_pca, caption_pca, ("E3",)),
    FigureSpec("theory", "Embeddings beside Theorem 1 (after Figs. 5C and 5D)", draw_theory, caption_theory, ("E6",)),
    FigureSpec(
        "orthogonality",
        "Large initialisation: nearly orthogonal tokens (after Fig. 14)",
        draw_orthogonality,
        caption_orthogonality,
        ("E4", "E5"),
    ),
]

EMB_MLP = [
    FigureSpec(
        "learning",
        "What Emb-MLP learns first (after Fig. 3B)",
        draw_emb_learning,
        caption_emb_learning,
        ("B1", "B2", "B3", "B5"),
    ),
    FigureSpec(
        "bias", "Emb-MLP's bias index against initialisation rate", draw_emb_bias, caption_emb_bias, ("B1", "B2", "B4")
    ),
    FigureSpec(
        "cosines",
        "Cosines of anchor embeddings, early and late (after Fig. 4A)",
        draw_emb_cosines,
        caption_emb_cosines,
        ("T3",),
    ),
    FigureSpec(
        "label_distributions",
        "Which labels a token sees (after Figs. 4B and 4C)",
        draw_distributions,
        caption_distributions,
    ),
    FigureSpec(
        "agreement",
        "Predicted and measured drift along training",
        draw_agreement,
        caption_agreement,
        ("T1", "T2", "T4"),
    ),
    FigureSpec("agreement_end", "Where theory and measurement part", draw_agreement_end, caption_agreement_end),
    FigureSpec(
        "drift_r2",
        "Predicted and measured drift as learning begins",
        draw_drift,
        caption_drift,
        ("T1", "T2", "T4"),
    ),
    FigureSpec("value_flow", "Predicted and measured change of W_V", draw_value_flow, caption_value_flow),
    FigureSpec("pca", "Principal components of Emb-MLP's embedding", draw_emb_pca, caption_emb_pca),
    FigureSpec(
        "theory", "Emb-MLP's embeddings beside Theorem 1 (after Figs. 5C and 5D)", draw_emb_theory, caption_emb_theory
    ),
    FigureSpec(
        "inner_products",
        "How the error of Theorem 1 grows with width (Eq. 13)",
        draw_inner_products,
        caption_inner_products,
    ),
    FigureSpec("lemma_1", "Uniform attention at initialisation (Lemma 1)", draw_lemma_1, caption_lemma_1),
]

LABELS = [
    FigureSpec(
        "label_speed",
        "Labels near the key are learned sooner (after Fig. 8 left)",
        draw_label_speed,
        caption_label_speed,
        ("R1",),
    ),
    FigureSpec(
        "label_range",
        "Outputs lie in their label range before memory is learned (after Fig. 8 right)",
        draw_label_range,
        caption_label_range,
        ("R2",),
    ),
]

LANGUAGE = [
    FigureSpec(
        "language_loss",
        "Loss on PrOntoQA and on stories (after Fig. 1)",
        draw_language_loss,
        caption_language_loss,
        ("G1", "G2"),
    ),
    FigureSpec(
        "delta_loss",
        "How much more is lost on stories, by initialisation (after Fig. 7A)",
        draw_delta_loss,
        caption_delta_loss,
        ("G1", "G1n", "G2"),
    ),
    FigureSpec(
        "token_cosines",
        "Cosines of token embeddings, early in training (after Fig. 7B)",
        draw_token_cosines,
        caption_token_cosines,
        ("G3",),
    ),
    FigureSpec(
        "token_similarity",
        "Mean cosines by corpus, initialisation and stage",
        draw_token_similarity,
        caption_token_similarity,
        ("G3",),
    ),
    FigureSpec("embedding_rank", "Rank of embeddings and weights", draw_embedding_rank, caption_embedding_rank),
    FigureSpec(
        "text_attention", "Attention of the first two layers on text", draw_text_attention, caption_text_attention
    ),
    FigureSpec(
        "next_token", "Embeddings beside what follows their tokens (Prop. 1)", draw_next_token, caption_next_token
    ),
    FigureSpec("skills", "Answers and chains of thought by hops", draw_skills, caption_skills),
]

STUDIES = {"anchor": FIGURES, "emb-mlp": EMB_MLP, "labels": LABELS, "language": LANGUAGE}


def figures_of(study: str) -> list[FigureSpec]:
    """The figures of a study, in the order in which they are shown. Raises ConfigError for an unknown study.

    >>> [spec.id for spec in figures_of("labels")]
    ['label_speed', 'label_range']
    """
    if study not in STUDIES:
        raise ConfigError(f"there are no figures of a study '{study}'; {nearest(study, STUDIES)}")
    return STUDIES[study]
