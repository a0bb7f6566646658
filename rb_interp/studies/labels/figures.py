"""Figures of the label study, after Fig. 8 of paper 1.

label_speed   left: memory is learned sooner where its labels lie near the sum that reasoning would give
label_range   right: before a memory mapping is learned, outputs already lie in its group's label range
"""

from typing import Any, cast

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.figures import kit
from rb_interp.figures.evidence import Evidence
from rb_interp.settings import SMALL
from rb_interp.studies.labels.config import BEFORE_MEMORY

CURVES = {
    ("keys", "mem"): ("mem1: labels anywhere among the keys", kit.MEMORY, "-"),
    ("near_sum", "mem"): ("mem2: labels near the key", "#3c9bd6", (0, (5, 1.2))),
    ("keys", "rsn_train"): ("reasoning beside mem1", kit.SET_COLOURS["rsn_train"], "-"),
    ("near_sum", "rsn_train"): ("reasoning beside mem2", kit.SET_COLOURS["rsn_train"], (0, (1, 1))),
}
GroupLook = tuple[str, Any]
LOOKS: tuple[GroupLook, ...] = (
    ("#9db8de", "-"),
    ("#5f8fce", (0, (5, 1.2))),
    ("#2f62ad", (0, (3, 1, 1, 1))),
    ("#0a2f70", (0, (1, 1))),
)
"""Colours and lines of groups."""


def draw_label_speed(evidence: Evidence) -> Figure:
    """Loss and accuracy of both memory mappings, and the index of their areas by seed (after Fig. 8
    left)."""
    figure, [[loss, accuracy, index]] = kit.panels(1, 3, 3.2, width_ratios=(1.25, 1.25, 0.75))
    for axes, quantity, label in (
        (loss, "loss", "cross entropy (nats)"),
        (accuracy, "accuracy", "share correct"),
    ):
        with kit.missing(axes):
            for (sweep, inputs), (name, colour, dash) in CURVES.items():
                kit.curve(axes, evidence.sweep(sweep), SMALL, inputs, quantity, colour, dash, name)
            axes.set(ylabel=label, title=f"{quantity}, γ = {SMALL:g}")
            axes.set_ylim(bottom=0)
    with kit.missing(index):
        speed = kit.Series(evidence.condition("R1").of, colour=kit.INK, marker="o")
        kit.rates(index, evidence, speed, average="mean")
        kit.zero(index)
        kit.threshold(index, evidence, "R1")
        index.margins(y=0.2)
        index.set_ylabel("(A$_{mem1}$ − A$_{mem2}$) / (A$_{mem1}$ + A$_{mem2}$)")
        index.set_title("index (−1 to 1)")
    kit.legend(figure, 2)
    return figure


def draw_label_range(evidence: Evidence) -> Figure:
    """Output distribution of each group before memory is learned, and the share inside its range
    along training."""
    groups = sorted(evidence.table("outputs", gamma=SMALL)["group"].astype(int).unique().tolist())
    figure = kit.new_figure(max(3.4, 0.95 * len(groups) + 0.9))
    left, right = cast(np.ndarray, figure.subfigures(1, 2, width_ratios=(1, 1.15)))
    outputs = left.subplots(len(groups), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, group in zip(outputs, groups, strict=True):
        rows = evidence.table("outputs", gamma=SMALL, group=group)
        means = evidence.table("outputs_summary", gamma=SMALL, group=group, quantity="probability")
        seeds = rows.pivot(index="label", columns="seed", values="probability")
        low, high = rows[["low", "high"]].iloc[0].astype(int)
        axes.axvspan(low - 0.5, high + 0.5, color="#fff0cc", lw=0, zorder=0)
        shade, _ = look_of(group)
        axes.plot(seeds.index, seeds.to_numpy(), color=shade, lw=0.4, alpha=0.4, zorder=2)
        axes.plot(means["label"], means["mean"], color=shade, lw=1.5, zorder=3)
        axes.set_title(f"group {group}: labels {low} to {high}", fontsize=7)
        axes.set_ylim(bottom=0)
    outputs[-1].set_xlabel("label (token)")
    left.supylabel("mean output probability before memory is learned", fontsize=7.5)
    inside = right.subplots()
    with kit.missing(inside):
        _inside(inside, evidence, groups)
        entries = []
        for group in groups:
            entries.append(kit.line(f"group {group}, inside its range", *look_of(group), 1.4))
        entries.append(kit.line("accuracy on memory", kit.GREY))
        entries.append(kit.key("lowest group, judged (seed)", kit.INK, "v", filled=True))
        look: dict[str, Any] = {"bbox_to_anchor": (0.5, -0.14), "ncols": 2, "frameon": False}
        inside.legend(handles=entries, loc="upper center", **look)
    return figure


def look_of(group: int) -> GroupLook:
    """Colour and line of a group, counted from 1."""
    return LOOKS[(group - 1) % len(LOOKS)]


def _inside(axes: Axes, evidence: Evidence, groups: list[int]) -> None:
    def means_of(quantity: str, group: int) -> pd.DataFrame:
        where = {"gamma": SMALL, "quantity": quantity, "group": group}
        return evidence.table("in_range_summary", **where).query("step > 0")

    for group in groups:
        means = means_of("inside", group).query("n == n.max()").sort_values("step")
        shade, dash = look_of(group)
        axes.plot(means["step"], means["mean"], color=shade, lw=1.4, ls=dash)
    rows = evidence.table("in_range", gamma=SMALL, group=1).query("step > 0")
    means = means_of("accuracy", 1)
    kit.band(axes, rows, "accuracy", means, kit.GREY, limits=(0.0, 1.0))
    ranges = evidence.sweep("ranges")
    for seed in ranges.seeds:
        step = ranges.step(SMALL, seed, BEFORE_MEMORY)
        value = ranges.value(evidence.condition("R2").of, seed)
        axes.plot([step or np.nan], [value], "v", ms=5, mfc=kit.INK, mec="white", mew=0.5, zorder=6)
    kit.threshold(axes, evidence, "R2")
    pooled = float(rows["pooled"].iloc[0])
    kit.zero(axes, pooled, ls=kit.DASHED, zorder=1)
    look = {"ha": "right", "va": "bottom", "color": "#555555"}
    text = "pooled labels alone, group 1"
    kit.note(axes, text, (0.99, pooled), axes.get_yaxis_transform(), **look)
    kit.steps(axes, float(rows["step"].to_numpy().max()), log=True)
    axes.set(ylim=(-0.02, 1.04), ylabel="probability, or share correct")
    axes.set_title("inside the own range, along training")


FIGURES = {"label_speed": draw_label_speed, "label_range": draw_label_range}
