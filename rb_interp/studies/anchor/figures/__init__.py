"""The figures of the anchor study, in the order in which they are shown."""

from __future__ import annotations

from functools import partial

from rb_interp.figures.embedding import caption_pca, caption_theory, draw_cosines, draw_pca, draw_theory
from rb_interp.figures.learning import caption_bias, caption_learning, draw_bias, draw_learning
from rb_interp.figures.spec import FigureSpec
from rb_interp.studies.anchor.figures.ablations import caption_ablations, draw_ablations
from rb_interp.studies.anchor.figures.causes import caption_causes, draw_causes
from rb_interp.studies.anchor.figures.circuits import (
    caption_circuits,
    caption_equivalence,
    draw_circuits,
    draw_equivalence,
)
from rb_interp.studies.anchor.figures.dynamics import caption_dynamics, draw_dynamics
from rb_interp.studies.anchor.figures.first_layer import (
    caption_attention_by_role,
    caption_first_layer,
    draw_attention_by_role,
    draw_first_layer,
)
from rb_interp.studies.anchor.figures.orthogonality import caption_cosines, caption_orthogonality, draw_orthogonality
from rb_interp.studies.anchor.figures.patching_matrix import caption_patching_matrix, draw_patching_matrix
from rb_interp.studies.anchor.figures.tasks import caption_tasks, draw_tasks
from rb_interp.studies.anchor.figures.variance_explained import caption_variance_explained, draw_variance_explained

FIRST_LAYER = ("M1", "M2", "M3", "M4", "M5", "M6")

FIGURES = (
    FigureSpec("tasks", "Two mappings, one kind of input (after Fig. 2)", draw_tasks, caption_tasks),
    FigureSpec(
        "learning",
        "What is learned first (after Fig. 3A)",
        draw_learning,
        partial(caption_learning, family="A"),
        ("A1", "A2", "A3", "A5"),
    ),
    FigureSpec(
        "bias",
        "Bias index against initialisation rate",
        partial(draw_bias, family="A"),
        partial(caption_bias, family="A"),
        ("A1", "A2", "A4"),
    ),
    FigureSpec("circuits", "Which circuit each member learned", draw_circuits, caption_circuits, ("M7r", "M8r")),
    FigureSpec(
        "equivalence", "Do members of two circuits answer alike?", draw_equivalence, caption_equivalence, ("Q1", "Q2")
    ),
    FigureSpec("first_layer", "L0's attention (after Fig. 6)", draw_first_layer, caption_first_layer, FIRST_LAYER),
    FigureSpec(
        "attention_by_role",
        "Where the last position looks in L1",
        draw_attention_by_role,
        caption_attention_by_role,
        ("M7", "M7b"),
    ),
    FigureSpec(
        "variance_explained", "Key and sum of anchors", draw_variance_explained, caption_variance_explained, ("M8",)
    ),
    FigureSpec(
        "causes",
        "Causes: interventions on each mechanism, each with its control",
        draw_causes,
        caption_causes,
        (*FIRST_LAYER, "M7", "M7b", "M8", "M9", "M10"),
    ),
    FigureSpec("ablations", "What each component contributes", draw_ablations, caption_ablations),
    FigureSpec(
        "patching_matrix", "Where key and anchors travel (patching)", draw_patching_matrix, caption_patching_matrix
    ),
    FigureSpec("dynamics", "Order of events", draw_dynamics, caption_dynamics),
    FigureSpec("cosines", "Cosines of anchor embeddings (after Fig. 5A)", draw_cosines, caption_cosines, ("E1", "E2")),
    FigureSpec(
        "pca",
        "Principal components of the embedding (after Fig. 5B)",
        draw_pca,
        partial(caption_pca, judged="E3"),
        ("E3",),
    ),
    FigureSpec(
        "theory",
        "Embeddings beside Theorem 1 (after Figs. 5C and 5D)",
        draw_theory,
        partial(caption_theory, judged="E6"),
        ("E6",),
    ),
    FigureSpec(
        "orthogonality",
        "Large initialisation: nearly orthogonal tokens (after Fig. 14)",
        draw_orthogonality,
        caption_orthogonality,
        ("E4", "E5"),
    ),
)
