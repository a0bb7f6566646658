"""The one-layer model's W_V: is its first change the weighted sum of embeddings that the theory predicts?"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import near_text, number, two_digits
from rb_interp.figures.panels import interval_of, try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import new_figure
from rb_interp.studies.emb_mlp.agreement import AGREES
from rb_interp.studies.emb_mlp.figures.common import level_line, of_seeds, rate_curves, rate_legend

SWEEP = "one_layer"
PANELS = {
    "cos": "change of W$_V$: cosine of\npredicted and measured",
    "cos_direction": "its leading direction: |cosine|\nwith the predicted one",
    "share_leading": "share of the measured change\nin one direction",
}


def draw_value_flow(evidence: Evidence) -> Figure:
    """Predicted and measured change of W_V against training step, one line per rate."""
    evidence.table("value_flow")
    figure = new_figure(3.1)
    for axes, (column, title) in zip(figure.subplots(1, 3, sharey=True), PANELS.items(), strict=True):
        try_panel(axes, _panel, evidence, column)
        axes.set_title(title)
    figure.axes[0].set_ylabel("no unit (1: exact)")
    absent = {f"γ = {gamma:g}" for gamma in set(evidence.gammas) - set(evidence.sweep(SWEEP).gammas)}
    legend.above(figure, [entry for entry in rate_legend(evidence) if entry.get_label() not in absent], columns=6)
    return figure


def _panel(axes: Axes, evidence: Evidence, column: str) -> None:
    rate_curves(axes, evidence, SWEEP, "value_flow", column)
    axes.set_ylim(max(min(-0.03, axes.get_ylim()[0]), -1.05), 1.04)
    if column != "share_leading":
        level_line(axes, AGREES, two_digits(AGREES))


def caption_value_flow(evidence: Evidence) -> Caption:
    """Caption of the flow of W_V, with its agreement at leaving."""
    own = evidence.sweep(SWEEP)
    found = {
        row["quantity"]: near_text(*interval_of(row)) + of_seeds(own, row["n"])
        for row in own.records("value_flow_leaving", gamma=SMALL)
    }
    cos, direction, share = (found.get(column, number(None)) for column in PANELS)
    return Caption(
        "The one-layer model with plain gradient descent. By the theory's approximations W_V first grows by the sum of "
        "all embeddings, each weighted with how often its token occurs and with its labels (P^s − u). Left: cosine of "
        "that predicted change with the measured change of W_V since step 0. Middle: cosine of the leading left "
        "singular vectors of both, without sign. Right: how much of the measured change lies in one direction. Thin "
        "lines are seeds, thick lines their mean, bands its 95 % interval (from three seeds on); markers show the "
        f"stage “leaving”. There, at γ = {SMALL:g}: {cos}, {direction} and {share}. The paper's own theorem on W_V was "
        "not available to us; this is the leading order of Eq. 9. No claim is judged on it.",
        "lines that are low at the markers: then another account is needed of why the value matrix aligns with "
        "reasoning anchors.",
    )
