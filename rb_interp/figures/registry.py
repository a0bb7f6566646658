"""The list of figures: what each is called, how it is drawn, and what its caption says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.figure import Figure

from rb_interp.figures.ablations import caption_ablations, draw_ablations
from rb_interp.figures.bias import caption_bias, draw_bias
from rb_interp.figures.causes import caption_causes, draw_causes
from rb_interp.figures.circuits import caption_circuits, draw_circuits
from rb_interp.figures.composition import caption_composition, draw_composition
from rb_interp.figures.dynamics import caption_dynamics, draw_dynamics
from rb_interp.figures.embedding import caption_cosines, caption_pca, draw_cosines, draw_pca
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.first_layer import caption_first_layer, draw_first_layer
from rb_interp.figures.learning import caption_learning, draw_learning
from rb_interp.figures.orthogonality import caption_orthogonality, draw_orthogonality
from rb_interp.figures.panels import Caption
from rb_interp.figures.patching_matrix import caption_patching_matrix, draw_patching_matrix
from rb_interp.figures.routing import caption_routing, draw_routing
from rb_interp.figures.tasks import caption_tasks, draw_tasks
from rb_interp.figures.theory import caption_theory, draw_theory


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
