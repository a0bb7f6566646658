"""Fig. 8 (right) of paper 1: before a memory mapping is learned, outputs already lie in its group's label range."""

from __future__ import annotations

from typing import cast

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from rb_interp.figures.criteria import LABELS
from rb_interp.figures.evidence import SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.learning import mean_band
from rb_interp.figures.numbers import interval_text, number, seeds_text
from rb_interp.figures.panels import Caption, seed_interval, sentence_figure, threshold, try_panel
from rb_interp.figures.parts import level_line, part_of, rows_of
from rb_interp.figures.style import GREY, INK, new_figure, styled

PART, STAGE = "ranges", "before_memory"
SHADES = ("#9db8de", "#5f8fce", "#2f62ad", "#0a2f70", "#05193d")
LINES = ("-", (0, (5, 1.2)), (0, (3, 1, 1, 1)), (0, (1, 1)), "-")


@styled
def draw_label_range(evidence: Evidence) -> Figure:
    """Output distribution of each group before memory is learned, and the share inside its range along training."""
    try:
        groups = sorted(rows_of(evidence, "outputs")["group"].astype(int).unique().tolist())
    except MissingEvidenceError as missing:
        return sentence_figure(str(missing))
    figure = new_figure(max(3.4, 0.95 * len(groups) + 0.9))
    left, right = cast(np.ndarray, figure.subfigures(1, 2, width_ratios=(1, 1.15)))
    panels = left.subplots(len(groups), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, group in zip(panels, groups, strict=True):
        _outputs(axes, evidence, group)
    panels[-1].set_xlabel("label (token)")
    when = "(memory not learned)" if last_steps(evidence)[0] else "before memory is learned"
    left.supylabel(f"mean output probability {when}", fontsize=7.5)
    axes = right.subplots()
    try_panel(axes, _inside, evidence, groups)
    return figure


def _outputs(axes: Axes, evidence: Evidence, group: int) -> None:
    rows = rows_of(evidence, "outputs", group=group)
    table = rows.pivot_table(index="label", columns="seed", values="probability")
    low, high = int(rows["low"].iloc[0]), int(rows["high"].iloc[0])
    colour = SHADES[(group - 1) % len(SHADES)]
    axes.axvspan(low - 0.5, high + 0.5, color="#fff0cc", lw=0, zorder=0)
    axes.plot(table.index, table.to_numpy(), color=colour, lw=0.4, alpha=0.4, zorder=2)
    axes.plot(table.index, table.mean(axis=1), color=colour, lw=1.5, zorder=3)
    axes.set_ylim(bottom=0)
    axes.set_title(f"group {group}: labels {low} to {high}", fontsize=7)


def inside_by_step(evidence: Evidence, group: int | None = None, column: str = "inside") -> pd.DataFrame:
    """Probability inside the own range as steps by seeds: of a group, or the lowest of all groups (``None``)."""
    rows = rows_of(evidence, "in_range", part=PART)
    if group is not None:
        rows = rows.loc[rows["group"] == group]
    return rows.loc[rows["step"] > 0].pivot_table(index="step", columns="seed", values=column, aggfunc="min")


def early_steps(axes: Axes) -> None:
    """Logarithmic axis of training steps, on which the first evaluations are apart; whole numbers, three a decade."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _place: f"{value:,.0f}")
    axes.set_xlabel("training step (log scale)")


def last_steps(evidence: Evidence) -> tuple[int, int]:
    """Seeds read at their last evaluation, because memory was never learned, and seeds of which the step is known."""
    try:
        found = part_of(evidence, PART)
    except MissingEvidenceError:
        return 0, 0
    steps = [found.step(SMALL, seed, STAGE) for seed in found.seeds]
    known, last = [step for step in steps if step is not None], int(found.curves["step"].to_numpy().max())
    return sum(step >= last for step in known), len(known)


def never_learned(evidence: Evidence) -> str:
    """A sentence where the stage ``before_memory`` is the last step of some seeds, else nothing.

    There its name would mislead: what is read is the end of a training that learned no memory.
    """
    never, known = last_steps(evidence)
    if not never:
        return ""
    these = "these runs" if never == known else "some of these runs"
    return f"Memory was not learned in {these}: R2 is read at the last step in {never} of {seeds_text(known)}."


def pooled_by_group(evidence: Evidence) -> dict[int, float]:
    """Share inside each group's range of a model that knows only the pooled labels, by group (0 to 1).

    Raises MissingEvidenceError where it was not read.
    """
    rows = rows_of(evidence, "in_range", part=PART)
    groups = sorted(rows["group"].astype(int).unique().tolist())
    return {group: float(rows.loc[rows["group"] == group, "pooled"].to_numpy().mean()) for group in groups}


def _inside(axes: Axes, evidence: Evidence, groups: list[int]) -> None:
    handles = []
    for group in groups:
        colour, line = SHADES[(group - 1) % len(SHADES)], LINES[(group - 1) % len(LINES)]
        axes.plot(*_mean(inside_by_step(evidence, group)), color=colour, lw=1.4, ls=line, zorder=4)
        handles.append(Line2D([], [], color=colour, lw=1.4, ls=line, label=f"group {group}, inside its range"))
    accuracy = inside_by_step(evidence, column="accuracy")
    mean_band(axes, accuracy, GREY, (0.0, 1.0))
    handles.append(Line2D([], [], color=GREY, lw=1.6, label="accuracy on memory"))
    for step, value in _judged(evidence):
        axes.plot([step], [value], "v", ms=5, mfc=INK, mec="white", mew=0.5, zorder=6)
    handles.append(Line2D([], [], color=INK, marker="v", ls="", ms=5, mec="white", label="lowest group, judged (seed)"))
    threshold(axes, LABELS["R2"], f"R2: ≥ {LABELS['R2']:.2f}".replace(" 0.", " ."))
    pooled = pooled_by_group(evidence)
    least = min(pooled, key=lambda group: pooled[group])
    level_line(axes, pooled[least], f"pooled labels alone, group {least}: {pooled[least]:.2f}".replace(" 0.", " ."))
    axes.set_ylim(-0.02, 1.04)
    early_steps(axes)
    axes.set_ylabel("probability, or share correct")
    axes.set_title("inside the own range, along training")
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, frameon=False)


def _mean(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Mean over seeds at the steps that all seeds have."""
    shared = table.dropna()
    return shared.index.to_numpy(), shared.mean(axis=1).to_numpy()


def _judged(evidence: Evidence) -> list[tuple[int, float]]:
    """Step and value of R2's statistic by seed, where readings tell both."""
    try:
        found = part_of(evidence, PART)
        values = found.values("label_range", "lowest_inside", SMALL, stage=STAGE, rows="mem")
    except MissingEvidenceError:
        return []
    steps = {seed: found.step(SMALL, seed, STAGE) for seed in values.index.tolist()}
    return [(step, float(values.loc[seed])) for seed, step in steps.items() if step is not None]


def told_range(evidence: Evidence, quantity: str) -> str:
    """``mean [low, high]`` over seeds of a reading of ``label_range`` before memory is learned, or ``n/a``."""
    try:
        values = part_of(evidence, PART).values("label_range", quantity, SMALL, stage=STAGE, rows="mem")
    except MissingEvidenceError:
        return number(None)
    return interval_text(*seed_interval(values))


def _sentence(text: str) -> str:
    return f"{text} " if text else ""


def _pooled(evidence: Evidence) -> str:
    try:
        found = pooled_by_group(evidence)
    except MissingEvidenceError:
        return number(None)
    return ", ".join(f"{share:.2f} in group {group}" for group, share in found.items())


def caption_label_range(evidence: Evidence) -> Caption:
    """Caption of outputs and label ranges, with what R2 judges."""
    return Caption(
        f"Memory anchors in groups, each with a label range of its own (shaded), at γ = {SMALL:g}. Left: mean output "
        "distribution over the inputs of each group at the last evaluation with memory accuracy at most .20; thin "
        f"lines are seeds, the thick one their mean. {_sentence(never_learned(evidence))}Right: probability inside the "
        "own range along training, from the first evaluation after step 0, mean over seeds, and memory accuracy with "
        "seeds and 95 % interval (from three seeds on). Triangles: the lowest group of each seed at "
        f"that evaluation, {told_range(evidence, 'lowest_inside')} over seeds, at an accuracy of "
        f"{told_range(evidence, 'accuracy')}. A model that knows only how often each label occurs in memory as a whole "
        f"reaches {_pooled(evidence)}; it would draw the same curve in every panel on the left.",
        "triangles below .90 (R2), or at the level of the pooled labels; outputs on the left that reach beyond the "
        "shaded ranges, above all in group 1.",
    )
