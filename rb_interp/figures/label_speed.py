"""Fig. 8 (left) of paper 1: memory is learned sooner where its labels lie near the sum that reasoning would give."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rb_interp.figures.criteria import LABELS
from rb_interp.figures.evidence import SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.learning import band, step_axis, thin
from rb_interp.figures.numbers import interval_text, number, seeds_text, share_text
from rb_interp.figures.panels import Caption, seed_interval, seeds_at, threshold, try_panel
from rb_interp.figures.parts import part_of
from rb_interp.figures.style import GREY, INK, MEMORY, SET_COLOURS, new_figure, styled

NEAR = "#3c9bd6"
CURVES = {
    ("keys", "mem"): ("mem1: labels anywhere among the keys", MEMORY, "-"),
    ("near_sum", "mem"): ("mem2: labels near the key", NEAR, (0, (5, 1.2))),
    ("keys", "rsn_train"): ("reasoning beside mem1", SET_COLOURS["rsn_train"], "-"),
    ("near_sum", "rsn_train"): ("reasoning beside mem2", SET_COLOURS["rsn_train"], (0, (1, 1))),
}


@styled
def draw_label_speed(evidence: Evidence) -> Figure:
    """Loss and accuracy of both memory mappings, and the index of their areas by seed (after Fig. 8 left)."""
    figure = new_figure(3.2)
    loss, accuracy, index = figure.subplots(1, 3, width_ratios=(1.25, 1.25, 0.75))
    for axes, column, label in ((loss, "loss", "cross entropy (nats)"), (accuracy, "accuracy", "share correct")):
        try_panel(axes, _curves, evidence, column)
        axes.set_ylabel(label if axes.lines else "")
        axes.set_title({"loss": "loss", "accuracy": "accuracy"}[column] + f", γ = {SMALL:g}")
    try_panel(index, _index, evidence)
    handles = [Line2D([], [], color=colour, ls=line, lw=1.7, label=words) for words, colour, line in CURVES.values()]
    figure.legend(handles=handles, loc="outside upper center", ncols=2)
    return figure


def curves(evidence: Evidence, part: str, rows: str, column: str) -> pd.DataFrame:
    """Loss or accuracy of a set of a part at the small initialisation: steps (index) by seeds."""
    found = part_of(evidence, part)
    found.require(SMALL)
    table = found.curves.loc[np.isclose(found.curves["gamma"].astype(float), SMALL) & (found.curves["set"] == rows)]
    return table.pivot_table(index="step", columns="seed", values=column)


def _curves(axes: Axes, evidence: Evidence, column: str) -> None:
    highest = 0.0
    for (part, rows), (_, colour, line) in CURVES.items():
        table = curves(evidence, part, rows, column)
        table = table.loc[thin(table.index.to_numpy())]
        mean, low, high = band(table)
        highest = max(highest, float(table.to_numpy().max()))
        axes.plot(table.index, table.to_numpy(), color=colour, lw=0.4, alpha=0.35, zorder=2)
        if table.shape[1] > 2:
            axes.fill_between(table.index, low, high, color=colour, alpha=0.12, lw=0, zorder=1)
        axes.plot(table.index, mean, color=colour, ls=line, lw=1.7, zorder=3)
        step_axis(axes, float(table.index.max()))
    axes.set_ylim(*((-0.02, 1.02) if column == "accuracy" else (0, 1.05 * highest)))


def _index(axes: Axes, evidence: Evidence) -> None:
    values = index_values(evidence)
    seeds_at(axes, 0.0, values, INK)
    axes.axhline(0, color=GREY, lw=0.8, zorder=0)
    threshold(axes, LABELS["R1"], f"R1: ≥ {LABELS['R1']:.2f}".replace(" 0.", " ."))
    axes.set_xlim(-0.45, 0.6)
    axes.set_xticks([])
    low, high = min(-0.02, values.min()), max(0.1, values.max())
    axes.set_ylim(low - 0.1 * (high - low), high + 0.15 * (high - low))
    axes.set_ylabel("(A$_{mem1}$ − A$_{mem2}$) / (A$_{mem1}$ + A$_{mem2}$)")
    axes.set_title("index (−1 to 1)")
    axes.set_xlabel(f"{seeds_text(len(values))}, mean, 95 %")


def index_values(evidence: Evidence, quantity: str = "bias") -> np.ndarray:
    """``bias`` (R1's index), ``bias_per_entropy``, ``area_mem1`` or ``area_mem2`` by seed.

    Raises MissingEvidenceError where not read.
    """
    return evidence.values("label_speed", quantity, SMALL).to_numpy()


def final_accuracy(evidence: Evidence, part: str, quantity: str) -> str:
    """``mean [low, high]`` over seeds of a part's final accuracy (``acc_mem``, ``acc_rsn_train``), or ``n/a``."""
    try:
        values = part_of(evidence, part).values("learning_order", quantity, SMALL)
    except MissingEvidenceError:
        return number(None)
    return share_text(*seed_interval(values))


def _told(evidence: Evidence, quantity: str) -> str:
    try:
        return interval_text(*seed_interval(index_values(evidence, quantity)))
    except MissingEvidenceError:
        return number(None)


def caption_label_speed(evidence: Evidence) -> Caption:
    """Caption of the speed of the two memory mappings, with what R1 judges."""
    return Caption(
        "Two sweeps with the same seeds and the same reasoning rows, which differ in their memory labels alone: drawn "
        "from all keys (mem1), or from the integers within the sum of the anchors around the key (mem2). Thin lines "
        "are seeds, thick ones their mean, bands its 95 % interval (from three seeds on). A is the "
        "mean over training of the loss over ln d_vocab: "
        f" {_told(evidence, 'area_mem1')} for mem1 and {_told(evidence, 'area_mem2')} for mem2, so the index "
        f"on the right is {_told(evidence, 'bias')}; positive where mem2's loss falls sooner. mem2 also has fewer "
        "labels for each key, so a model that knows the key and no pair already loses less on it; with each loss "
        f"divided by the entropy of its labels the index is {_told(evidence, 'bias_per_entropy')}. The loss tells "
        "which falls sooner, the accuracy which is memorised: final accuracy on memory is "
        f"{final_accuracy(evidence, 'keys', 'acc_mem')} (mem1) and "
        f"{final_accuracy(evidence, 'near_sum', 'acc_mem')} (mem2). Purple: the same reasoning rows beside each, with "
        f"a final accuracy of {final_accuracy(evidence, 'keys', 'acc_rsn_train')} and "
        f"{final_accuracy(evidence, 'near_sum', 'acc_rsn_train')}; one model learns both sets, so its memory labels "
        "may speed or slow the rule.",
        "seeds at or below the dashed line on the right (R1), or a light blue loss that falls with the dark one or "
        "after it. Purple lines that differ do not refute R1; they show what the memory labels do to the rule.",
    )
