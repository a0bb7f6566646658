"""Figures of the label study, after Fig. 8 of paper 1.

label_speed   left: memory is learned sooner where its labels lie near the sum that reasoning would give
label_range   right: before a memory mapping is learned, outputs already lie in its group's label range
"""

from __future__ import annotations

from typing import cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures import legend
from rb_interp.figures.curves import by_seed, by_step, learning_curve, mean_band, step_axis
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import number, seeds_text, two_digits
from rb_interp.figures.panels import note, over_seeds, seeds_at, threshold, try_panel, written
from rb_interp.figures.spec import Caption, FigureSpec
from rb_interp.figures.style import DASHED, GREY, INK, MEMORY, SET_COLOURS, new_figure, styled
from rb_interp.studies.labels.config import BEFORE_MEMORY
from rb_interp.studies.labels.report import (
    MEMORIES,
    mean_text,
    never_learned,
    pooled_by_group,
    pooled_text,
    times_never_learned,
)
from rb_interp.tasks.anchor import MEMORY_ACCURACY

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
        axes.set_title(f"{column}, γ = {SMALL:g}")
    try_panel(index, _index, evidence)
    legend.above(figure, [legend.line(words, colour, line, 1.7) for words, colour, line in CURVES.values()], columns=2)
    return figure


def _curves(axes: Axes, evidence: Evidence, column: str) -> None:
    highest = 0.0
    for (sweep, inputs), (_, colour, line) in CURVES.items():
        seeds, means = learning_curve(evidence.sweep(sweep), SMALL, inputs, column)
        mean_band(axes, seeds, means, colour, line)
        step_axis(axes, float(seeds.index.to_numpy().max()))
        highest = max(highest, float(seeds.to_numpy().max()))
    axes.set_ylim(*((-0.02, 1.02) if column == "accuracy" else (0, 1.05 * highest)))


def _index(axes: Axes, evidence: Evidence) -> None:
    values = evidence.values("label_speed", "bias", SMALL).to_numpy()
    seeds_at(axes, 0.0, values, evidence.interval("label_speed", "bias", SMALL), INK)
    axes.axhline(0, color=GREY, lw=0.8, zorder=0)
    threshold(axes, evidence.threshold("R1"), written(evidence, "R1"))
    axes.set_xlim(-0.45, 0.6)
    axes.set_xticks([])
    low, high = min(-0.02, values.min()), max(0.1, values.max())
    axes.set_ylim(low - 0.1 * (high - low), high + 0.15 * (high - low))
    axes.set_ylabel("(A$_{mem1}$ − A$_{mem2}$) / (A$_{mem1}$ + A$_{mem2}$)")
    axes.set_title("index (−1 to 1)")
    axes.set_xlabel(f"{seeds_text(len(values))}, mean, 95 %")


def caption_label_speed(evidence: Evidence) -> Caption:
    """Caption of the speed of the two memory mappings, with what R1 judges."""
    quantities = ("area_mem1", "area_mem2", "bias", "bias_per_entropy")
    first, second, index, fair = (over_seeds(evidence, "label_speed", name, SMALL) for name in quantities)
    memory, reasoning = (
        [mean_text(evidence, sweep, name) for sweep in MEMORIES] for name in ("acc_mem", "acc_rsn_train")
    )
    return Caption(
        "Two sweeps with the same seeds and the same reasoning rows, which differ in their memory labels alone: drawn "
        "from all keys (mem1), or from the integers within the sum of the anchors around the key (mem2). Thin lines "
        "are seeds, thick ones their mean, bands its 95 % interval (from three seeds on). A is the "
        f"mean over training of the loss over ln d_vocab: {first} for mem1 and {second} for mem2, so the index on the "
        f"right is {index}; positive where mem2's loss falls sooner. mem2 also has fewer labels for each key, so a "
        "model that knows the key and no pair already loses less on it; with each loss divided by the entropy of its "
        f"labels the index is {fair}. The loss tells which falls sooner, the accuracy which is memorised: final "
        f"accuracy on memory is {memory[0]} (mem1) and {memory[1]} (mem2). Purple: the same reasoning rows beside "
        f"each, with a final accuracy of {reasoning[0]} and {reasoning[1]}; one model learns both sets, so its memory "
        "labels may speed or slow the rule.",
        "seeds at or below the dashed line on the right (R1), or a light blue loss that falls with the dark one or "
        "after it. Purple lines that differ do not refute R1; they show what the memory labels do to the rule.",
    )


SHADES = ("#9db8de", "#5f8fce", "#2f62ad", "#0a2f70", "#05193d")
LINES = ("-", (0, (5, 1.2)), (0, (3, 1, 1, 1)), (0, (1, 1)), "-")
RANGE = "#fff0cc"


@styled
def draw_label_range(evidence: Evidence) -> Figure:
    """Output distribution of each group before memory is learned, and the share inside its range along training."""
    groups = sorted(evidence.table("outputs", gamma=SMALL)["group"].astype(int).unique().tolist())
    figure = new_figure(max(3.4, 0.95 * len(groups) + 0.9))
    left, right = cast(np.ndarray, figure.subfigures(1, 2, width_ratios=(1, 1.15)))
    panels = left.subplots(len(groups), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, group in zip(panels, groups, strict=True):
        _outputs(axes, evidence, group)
    panels[-1].set_xlabel("label (token)")
    when = "(memory not learned)" if times_never_learned(evidence)[0] else "before memory is learned"
    left.supylabel(f"mean output probability {when}", fontsize=7.5)
    try_panel(right.subplots(), _inside, evidence, groups)
    return figure


def _outputs(axes: Axes, evidence: Evidence, group: int) -> None:
    rows = evidence.table("outputs", gamma=SMALL, group=group)
    means = evidence.table("outputs_summary", gamma=SMALL, group=group)
    seeds = rows.pivot(index="label", columns="seed", values="probability")
    low, high = int(rows["low"].iloc[0]), int(rows["high"].iloc[0])
    axes.axvspan(low - 0.5, high + 0.5, color=RANGE, lw=0, zorder=0)
    axes.plot(seeds.index, seeds.to_numpy(), color=_look(group)[0], lw=0.4, alpha=0.4, zorder=2)
    axes.plot(means["label"], means["mean"], color=_look(group)[0], lw=1.5, zorder=3)
    axes.set_ylim(bottom=0)
    axes.set_title(f"group {group}: labels {low} to {high}", fontsize=7)


def _look(group: int) -> tuple[str, object]:
    """Colour and line of a group."""
    return SHADES[(group - 1) % len(SHADES)], LINES[(group - 1) % len(LINES)]


def _inside(axes: Axes, evidence: Evidence, groups: list[int]) -> None:
    entries = []
    for group in groups:
        means = by_step(evidence.table("in_range_summary", gamma=SMALL, quantity="inside", group=group)).loc[1:]
        shared = means.loc[means["n"] == means["n"].max()]
        colour, line = _look(group)
        axes.plot(shared.index, shared["mean"], color=colour, lw=1.4, ls=line, zorder=4)  # pyright: ignore[reportArgumentType]
        entries.append(legend.line(f"group {group}, inside its range", colour, line, 1.4))
    seeds = by_seed(evidence.table("in_range", gamma=SMALL, group=1), "accuracy").loc[1:]
    means = by_step(evidence.table("in_range_summary", gamma=SMALL, quantity="accuracy")).loc[1:]
    mean_band(axes, seeds, means, GREY, limits=(0.0, 1.0))
    _judged(axes, evidence.sweep("ranges"))
    entries += [
        legend.line("accuracy on memory", GREY),
        legend.mark("lowest group, judged (seed)", INK, "v", 5.0, filled=True),
    ]
    threshold(axes, evidence.threshold("R2"), written(evidence, "R2"))
    _pooled_line(axes, evidence)
    axes.set_ylim(-0.02, 1.04)
    _early_steps(axes)
    axes.set_ylabel("probability, or share correct")
    axes.set_title("inside the own range, along training")
    legend.panel(axes, "upper center", entries, bbox_to_anchor=(0.5, -0.14), ncols=2, frameon=False)


def _pooled_line(axes: Axes, evidence: Evidence) -> None:
    """What the pooled labels alone give in the group where it is least."""
    pooled = pooled_by_group(evidence)
    if not pooled:
        return
    least = min(pooled, key=lambda group: pooled[group])
    text = f"pooled labels alone, group {least}: {pooled[least]:.2f}".replace(" 0.", " .")
    axes.axhline(pooled[least], color=GREY, lw=0.8, ls=DASHED, zorder=1)
    look = {"xytext": (0, 1.5), "ha": "right", "va": "bottom", "color": "#555555", "zorder": 8}
    note(axes, text, (0.99, pooled[least]), axes.get_yaxis_transform(), **look)


def _early_steps(axes: Axes) -> None:
    """Logarithmic axis of training steps, on which the first evaluations are apart; whole numbers, three a decade."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _place: f"{value:,.0f}")
    axes.set_xlabel("training step (log scale)")


def _judged(axes: Axes, ranges: Evidence) -> None:
    """R2's statistic of each seed at its step, where readings tell both."""
    for seed in ranges.seeds:
        step = ranges.step(SMALL, seed, BEFORE_MEMORY)
        value = ranges.value("label_range", "lowest_inside", SMALL, seed, stage=BEFORE_MEMORY, set="mem")
        if step is not None and np.isfinite(value):
            axes.plot([step], [value], "v", ms=5, mfc=INK, mec="white", mew=0.5, zorder=6)


def caption_label_range(evidence: Evidence) -> Caption:
    """Caption of outputs and label ranges, with what R2 judges."""
    lowest, accuracy = (
        over_seeds(evidence.sweep("ranges"), "label_range", name, SMALL, stage=BEFORE_MEMORY, set="mem")
        for name in ("lowest_inside", "accuracy")
    )
    never, learned = never_learned(evidence), two_digits(MEMORY_ACCURACY)
    return Caption(
        f"Memory anchors in groups, each with a label range of its own (shaded), at γ = {SMALL:g}. Left: mean output "
        f"distribution over the inputs of each group at the last evaluation with memory accuracy at most {learned}; "
        f"thin lines are seeds, the thick one their mean. {never}{' ' if never else ''}Right: probability inside the "
        "own range along training, from the first evaluation after step 0, mean over seeds, and memory accuracy with "
        "seeds and 95 % interval (from three seeds on). Triangles: the lowest group of each seed at "
        f"that evaluation, {lowest} over seeds, at an accuracy of {accuracy}. A model that knows only how often each "
        f"label occurs in memory as a whole reaches {pooled_text(evidence) or number(None)}; it would draw the same "
        "curve in every panel on the left.",
        f"triangles below {two_digits(evidence.threshold('R2'))} (R2), or at the level of the pooled labels; outputs "
        "on the left that reach beyond the shaded ranges, above all in group 1.",
    )


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
