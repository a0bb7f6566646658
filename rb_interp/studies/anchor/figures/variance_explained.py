"""Key + sum: which grouping of inputs explains the vectors at the last position, component by component."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.numbers import seeds_text, share_text, two_digits
from rb_interp.figures.panels import heat_map, over_seeds, seeds_by_gamma, threshold_at, try_panel, written
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import ATTENTION, GREY, new_figure
from rb_interp.studies.anchor.figures.ablations import forward

PROBE, SET = "variance_explained", "rsn_train"
GROUPINGS = {
    "key": "key", "anchor_sum": "sum of\nanchors", "anchors": "anchors,\nordered",
    "key_and_sum": "key and\nsum", "interaction": "inter-\naction",
}  # fmt: skip
WORDS = {
    "resid_pre": "embedding +\nposition", "attn_out": "attention output", "mlp_out": "MLP output",
    "resid_post": "residual stream,\nend",
}  # fmt: skip
"""Components in forward order within a layer, in words."""


def draw_variance_explained(evidence: Evidence) -> Figure:
    """Share of variance by component and grouping at the small initialisation, and the two shares of M8 by rate."""
    figure = new_figure(3.6)
    grid = figure.add_gridspec(2, 2, width_ratios=(2, 1))
    try_panel(figure.add_subplot(grid[:, 0]), _table, evidence)
    upper, lower = figure.add_subplot(grid[0, 1]), figure.add_subplot(grid[1, 1])
    try_panel(upper, _by_gamma, evidence, "attn_out.1:key", "key in L1's attention output")
    try_panel(lower, _by_gamma, evidence, "attn_out.0:anchor_sum", "sum in L0's attention output")
    return figure


def components(evidence: Evidence) -> list[str]:
    """Component names of the readings, in forward order: ``resid_pre.0``, ``attn_out.0``, ..."""
    table = evidence.readings
    return sorted({str(name).split(":")[0] for name in table.loc[table["probe"] == PROBE, "quantity"]}, key=forward)


def _table(axes: Axes, evidence: Evidence) -> None:
    evidence.require(SMALL)
    rows = components(evidence)
    if not rows:
        raise MissingEvidenceError(f"This run has no reading of {PROBE}.")
    (key, anchor_sum, *others), q = GROUPINGS.items(), evidence.task.q
    single = [(f"anchor_{i}", f"anchor\n{i}") for i in range(1, q + 1)] if q > 1 else []
    columns = dict([key, anchor_sum, *single, *others])
    found = np.array([[evidence.spread(PROBE, f"{r}:{c}", SMALL, set=SET) for c in columns] for r in rows])
    heat_map(axes, found[..., 0], low=0.0, high=1.0, colours=ATTENTION)
    axes.set_aspect("auto")
    for i, j in np.argwhere(np.isfinite(found[..., 0])):
        ink = "white" if found[i, j, 0] > 0.5 else "#1c1c1c"
        value, *ends = share_text(*found[i, j]).split(" ", 1)
        axes.text(j, i - 0.1, value, ha="center", va="center", color=ink)
        for text in ends:
            axes.text(j, i + 0.24, text, ha="center", va="center", color=ink, fontsize=5)
    axes.set_xticks(range(len(columns)), list(columns.values()))
    parts = [name.split(".") for name in rows]
    texts = [WORDS[part] if part.startswith("resid") else f"L{layer}:\n{WORDS[part]}" for part, layer in parts]
    axes.set_yticks(range(len(rows)), texts)
    axes.xaxis.tick_top()
    where = f"γ = {SMALL:g}, final: median over seeds [lowest, highest]"
    axes.set_xlabel(f"share of variance explained (omega squared, at most 1),\n{where}")


def _by_gamma(axes: Axes, evidence: Evidence, quantity: str, title: str) -> None:
    seeds_by_gamma(axes, evidence, PROBE, quantity, set=SET)
    axes.axhline(0, color=GREY, lw=0.6)
    threshold_at(axes, evidence, SMALL, evidence.threshold("M8"), written(evidence, "M8"), below=True)
    legend.panel(axes, "upper left", [legend.untrained()], handlelength=1)
    axes.set(ylim=(-0.05, 1.25), yticks=[0, 0.25, 0.5, 0.75, 1], ylabel="share of variance")
    axes.set_title(title)


def caption_variance_explained(evidence: Evidence) -> Caption:
    """Caption of the variance explained."""
    names = ("attn_out.1:key", "attn_out.0:anchor_sum")
    texts = [over_seeds(evidence, PROBE, name, SMALL, set=SET) for name in names]
    return Caption(
        "Share of the variance of each component's output at the last position that a grouping of reasoning inputs "
        "explains (adjusted for the number of groups, so slightly negative values mean none; interaction = pair of "
        f"key and sum, less key, less sum). At γ = {SMALL:g}, over {seeds_text(len(evidence.seeds))}, the key "
        f"explains {texts[0]} of L1's attention output and the sum of anchors {texts[1]} of L0's. "
        "Crossed cells: no reading.",
        f"at γ = {SMALL:g}, a share of the key in L1's attention output or of the sum in L0's below "
        f"{two_digits(evidence.threshold('M8'))} (M8); single anchors or the interaction explaining more than the sum "
        "would point to another circuit.",
    )
