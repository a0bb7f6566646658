"""Figures of the study of addition and commands, in the order in which the report shows them."""

from rb_interp.figures.spec import FigureSpec
from rb_interp.studies.addition_and_scan.figures.commands import caption_commands, draw_commands
from rb_interp.studies.addition_and_scan.figures.differences import caption_differences, draw_differences
from rb_interp.studies.addition_and_scan.figures.sums import caption_sums, draw_sums

FIGURES: tuple[FigureSpec, ...] = (
    FigureSpec("sums", "Which sums are answered rightly (after Fig. 17a)", draw_sums, caption_sums, ("P1",)),
    FigureSpec(
        "commands", "Commands by number of training rows (after Fig. 6a)", draw_commands, caption_commands, ("P2",)
    ),
    FigureSpec(
        "differences", "Initialisation and weight decay apart", draw_differences, caption_differences, ("P1", "P2")
    ),
)
