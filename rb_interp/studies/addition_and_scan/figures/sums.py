"""The table of sums: which are answered rightly, by cell of gamma and weight decay (after Fig. 17a of paper 2)."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import seeds_text, share_text, two_digits
from rb_interp.figures.panels import heat_map, over_seeds, try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import ATTENTION, RED, new_figure, styled
from rb_interp.studies.addition_and_scan.addition import AdditionTask
from rb_interp.studies.addition_and_scan.config import DECAYS, LARGE, SMALL
from rb_interp.studies.addition_and_scan.figures.cells import GAMMAS, cell_text

TICKS = 5


@styled
def draw_sums(evidence: Evidence) -> Figure:
    """Share of seeds that answer each sum rightly; columns are gammas, rows weight decays, the block is framed."""
    figure = new_figure(7.0)
    panels = figure.subplots(2, 2, sharex=True, sharey=True)
    for row, decay in zip(panels, DECAYS, strict=True):
        for axes, gamma in zip(row, GAMMAS, strict=True):
            try_panel(axes, _table, evidence, decay, gamma)
            axes.set_title(_title(evidence, decay, gamma))
    for axes in panels[1]:
        axes.set_xlabel("second operand b")
    for axes in panels[:, 0]:
        axes.set_ylabel("first operand a")
    images = [image for axes in panels.ravel() for image in axes.images]
    if images:
        figure.colorbar(images[0], ax=panels, shrink=0.5, label="share of seeds that answer a + b rightly")
    legend.above(figure, [legend.area("held-out block", "none", edge=RED, width=1.4)], columns=1)
    return figure


def _table(axes: Axes, evidence: Evidence, decay: str, gamma: float) -> None:
    sweep = evidence.sweep(f"addition_{decay}")
    sums = sweep.mean_array("answers", "sums", gamma, stage="final")
    heat_map(axes, sums, low=0, high=1, colours=ATTENTION)
    task: AdditionTask = sweep.task
    (low, high), (first, last) = task.operands, task.block
    every = -(-(high - low + 1) // len(sums))  # operands between two that are shown
    start, side = (first - low) / every - 0.5, (last - first + 1) / every
    axes.add_patch(Rectangle((start, start), side, side, fill=False, ec=RED, lw=1.4))
    places = range(0, len(sums), -(-len(sums) // TICKS))
    names = [str(low + every * place) for place in places]
    axes.set_xticks(places, names)
    axes.set_yticks(places, names)
    axes.set_ylim(-0.5, len(sums) - 0.5)


def _title(evidence: Evidence, decay: str, gamma: float) -> str:
    block = over_seeds(evidence.sweep(f"addition_{decay}"), "answers", "right", gamma, set="block", write=share_text)
    return f"{cell_text(decay, gamma)}\nblock: {block}"


def caption_sums(evidence: Evidence) -> Caption:
    """Caption of the table of sums, with what P1 judges."""
    cells = {"high": SMALL, "low": LARGE}
    trained, tested = (
        {
            decay: over_seeds(evidence.sweep(f"addition_{decay}"), "answers", "right", gamma, set=set, write=share_text)
            for decay, gamma in cells.items()
        }
        for set in ("train", "seen_test")
    )
    least, learned = (two_digits(evidence.threshold("P1", number)) for number in (0, 1))
    return Caption(
        f"Each cell is one sum a + b at the last step, {seeds_text(len(evidence.seeds))}. Sums with both operands in "
        "the framed block were never trained, nor was a tenth of the others, which each seed draws. Above each panel: "
        "accuracy on the block (median [range]). P1 compares bottom right with top left. Accuracy on the sums that "
        f"were trained is {trained['high']} at bottom right and {trained['low']} at top left; on other sums outside "
        f"the block it is {tested['high']} and {tested['low']}.",
        f"an accuracy on the block at bottom right that is less than {least} above the one at top left, or members of "
        f"these two panels with an accuracy below {learned} on what they were trained on (P1).",
    )
