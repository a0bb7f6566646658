"""Loss and accuracy of every set along training, one column per rate."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.figures import legend
from rb_interp.figures.curves import learning_curve, mean_band
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.learning import learning_panels, loss_limit
from rb_interp.figures.numbers import number, seeds_text, two_digits
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import BLUE, INK, SET_COLOURS, styled
from rb_interp.studies.composite.config import MIDDLE, SMALL, VERY_LARGE

LOOKS = {
    "train": ("trained on", INK, "-"),
    "seen_train": ("trained pairs, training keys, fresh rows", SET_COLOURS["rsn_train"], (0, (1, 1))),
    "seen_test": ("trained pairs, test keys", SET_COLOURS["rsn_test"], (0, (4, 1.6))),
    "unseen": ("unseen pair (accuracy: answered inferentially)", BLUE, "-"),
}
"""Set -> words, colour and line."""


@styled
def draw_learning(evidence: Evidence) -> Figure:
    """Loss and accuracy of the four sets against training step, one column per rate."""
    figure, panels = learning_panels(evidence)
    for (loss, accuracy), gamma in zip(panels.T, evidence.gammas, strict=True):
        _curves(loss, evidence, gamma, "loss")
        _curves(accuracy, evidence, gamma, "accuracy")
        loss.set_title(f"γ = {gamma:g}")
    entries = [legend.line(words, colour, line, 1.7) for words, colour, line in LOOKS.values()]
    legend.above(figure, [*entries, legend.seed()], columns=3)
    return figure


def _curves(axes: Axes, evidence: Evidence, gamma: float, quantity: str) -> None:
    for name, (_, colour, line) in LOOKS.items():
        mean_band(axes, *learning_curve(evidence, gamma, name, quantity), colour, line)


def caption_learning(evidence: Evidence) -> Caption:
    """Caption of the learning curves, with what C3 and C4 judge."""
    limit = loss_limit(evidence)
    higher = evidence.curves["loss"].to_numpy().max() > limit
    cut_off = f" Losses above {number(limit)} nats lie outside the panels." if higher else ""
    unfit, fit = (two_digits(evidence.threshold(claim)) for claim in ("C3", "C4"))
    return Caption(
        f"Cross entropy (top) and accuracy (bottom) for {seeds_text(len(evidence.seeds))}: thin lines are seeds, thick "
        "lines their mean, bands its 95 % interval (from three seeds on). Test keys were not trained at the position "
        "where they stand. The label of the unseen pair is the inferential answer, so a symmetric member has a large "
        f"loss on it.{cut_off}",
        f"an orange accuracy that ends below {fit} or clearly below the purple one at γ = {MIDDLE:g} or {SMALL:g} "
        f"(C4), or one that ends at {unfit} or above at γ = {VERY_LARGE:g} (C3).",
    )
