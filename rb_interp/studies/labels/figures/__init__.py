"""Figures of the label study, in the order in which the report shows them."""

from rb_interp.figures.spec import FigureSpec
from rb_interp.studies.labels.figures.label_range import caption_label_range, draw_label_range
from rb_interp.studies.labels.figures.label_speed import caption_label_speed, draw_label_speed

FIGURES: tuple[FigureSpec, ...] = (
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
)
