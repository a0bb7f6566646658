"""Figures of the composite study, in the order in which the report shows them."""

from rb_interp.figures.spec import FigureSpec
from rb_interp.studies.composite.figures.attention import caption_attention, draw_attention
from rb_interp.studies.composite.figures.cosines import caption_cosines, draw_cosines
from rb_interp.studies.composite.figures.flows import caption_flows, draw_flows
from rb_interp.studies.composite.figures.learning import caption_learning, draw_learning
from rb_interp.studies.composite.figures.phases import caption_phases, draw_phases

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
        "attention",
        "Attention from role to role (after Fig. 3)",
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
)
