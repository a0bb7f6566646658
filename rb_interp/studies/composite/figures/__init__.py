"""Figures of the composite study, in the order in which the report shows them."""

from rb_interp.figures.spec import FigureSpec
from rb_interp.studies.composite.figures.complexity import (
    caption_condensation,
    caption_growth,
    caption_items,
    caption_participation,
    caption_singular_values,
    draw_condensation,
    draw_growth,
    draw_items,
    draw_participation,
    draw_singular_values,
)
from rb_interp.studies.composite.figures.cosines import caption_cosines, draw_cosines
from rb_interp.studies.composite.figures.diagram import caption_diagram, draw_diagram
from rb_interp.studies.composite.figures.flows import caption_attention, caption_flows, draw_attention, draw_flows
from rb_interp.studies.composite.figures.phases import caption_learning, caption_phases, draw_learning, draw_phases

FIGURES: tuple[FigureSpec, ...] = (
    FigureSpec("learning", "Learning curves", draw_learning, caption_learning, ("C3", "C4")),
    FigureSpec(
        "phases",
        "Inferential and symmetric answers to the unseen pair (after Fig. 2)",
        draw_phases,
        caption_phases,
        ("C1", "C2", "C5"),
    ),
    FigureSpec(
        "diagram",
        "Flow of information, from measured attention (after Fig. 3)",
        draw_diagram,
        caption_diagram,
        ("F1", "F2"),
    ),
    FigureSpec(
        "attention",
        "Attention from role to role, by rate and flow",
        draw_attention,
        caption_attention,
        ("F1", "F2", "F3"),
    ),
    FigureSpec("flows", "What roles carry after L0, member by member", draw_flows, caption_flows, ("F4", "F5")),
    FigureSpec(
        "cosines",
        "Cosines of equal and different answers, and of first steps (after Fig. 4)",
        draw_cosines,
        caption_cosines,
        ("D1", "D2", "D4"),
    ),
    FigureSpec(
        "condensation",
        "Neurons of L0's W_Q (after Figs. 5a, 5b and 10)",
        draw_condensation,
        caption_condensation,
        ("K1",),
    ),
    FigureSpec(
        "singular_values",
        "Singular values of every matrix (after Fig. 13)",
        draw_singular_values,
        caption_singular_values,
        ("K2",),
    ),
    FigureSpec(
        "participation", "Participation ratio of every matrix", draw_participation, caption_participation, ("K2", "K8")
    ),
    FigureSpec("items", "Embeddings of the items (after Figs. 5c, 5d)", draw_items, caption_items, ("K5", "K6", "K7")),
    FigureSpec("growth", "Growth of the items' covariance (after Fig. 12)", draw_growth, caption_growth, ("K3", "K4")),
)
