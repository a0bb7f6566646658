"""The phase map: one panel an axis, one cell a point and gamma, divided among the phases of its members."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from rb_interp.figures import kit, style
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.studies.composite.map.config import AXES
from rb_interp.studies.composite.phase import INFERENTIAL, MIXED, PHASES, SYMMETRIC, UNFIT

COLOURS = {UNFIT: "#c9c9c9", INFERENTIAL: "#4b7fd0", SYMMETRIC: "#d9695f", MIXED: "#f0d98c"}
PANELS = ("depth", "rate", "decay", "gpt2", "unseen_rate", "unseen_decay")


def draw_map(evidence: Evidence) -> Figure:
    """Every axis, save one whose only point stands on another axis too; MissingEvidenceError without members."""
    points = {axis: {row["point"] for row in evidence.records("cells", axis=axis)} for axis in PANELS}
    if not any(points.values()):
        raise MissingEvidenceError("This run has no members.")
    sweeps = {axis: {row["sweep"] for row in evidence.records("cells", axis=axis)} for axis in PANELS}
    shown = {sweep for axis in PANELS if len(points[axis]) > 1 for sweep in sweeps[axis]}
    drawn = []
    for axis in PANELS:
        if len(points[axis]) > 1 or sweeps[axis] - shown:
            drawn.append(axis)
            shown |= sweeps[axis]
    rows = -(-len(drawn) // 3)
    columns = -(-len(drawn) // rows)
    most = [max(len(points[axis]) for axis in drawn[at : at + columns]) for at in range(0, len(drawn), columns)]
    heights = [max(2.1, 0.6 + 0.25 * n) for n in most]
    ratios = {"width_ratios": (1.35, 1.0, 1.0)[:columns], "height_ratios": heights}
    figure, axes = kit.panels(rows, columns, 0.4 + sum(heights), **ratios)
    for one in axes.flat[len(drawn) :]:
        one.remove()
    for one, axis in zip(axes.flat, drawn, strict=False):
        one.set_title(AXES[axis])
        _panel(one, evidence, axis)
    kit.legend(figure, 5, [Patch(fc=COLOURS[phase], label=phase) for phase in PHASES])
    return figure


def _panel(axes: Axes, evidence: Evidence, axis: str) -> None:
    table = evidence.table("cells", axis=axis)
    gammas, labels = sorted(table["gamma"].unique()), dict(sorted(zip(table["point"], table["label"], strict=True)))
    points = list(labels)
    for (gamma, point), rows in cast(Any, table.groupby(["gamma", "point"])):
        left, y = gammas.index(gamma) - 0.47, points.index(point)
        for row in sorted(rows.to_dict("records"), key=lambda row: PHASES.index(row["phase"])):
            if row["n"]:
                width = row["share"] * 0.94
                axes.barh(y, width, 0.86, left=left, fc=COLOURS[row["phase"]], ec="white", lw=0.4)
                axes.text(left + width / 2, y, str(row["n"]), ha="center", va="center", fontsize=5.5)
                left += width
    fitted = {row["point"] for row in table.to_dict("records") if row["n"] and row["phase"] != UNFIT}
    for row in evidence.records("boundaries", axis=axis):
        if row["crossing"] and row["point"] in fitted:
            low, at, high = np.interp([row["low"], row["gamma_star"], row["high"]], gammas, range(len(gammas)))
            top = points.index(row["point"]) + 0.5
            axes.plot([low, high], [top, top], color=style.INK, lw=1.0, zorder=6)
            axes.plot(at, top, "D", color=style.INK, ms=3.2, zorder=7, label="boundary γ*, 95 % interval")
    axes.set(xlim=(-0.55, len(gammas) - 0.45), ylim=(-0.55, len(points) - 0.4), xlabel="γ")
    axes.set_xticks(range(len(gammas)), [f"{gamma:g}" for gamma in gammas])
    axes.set_yticks(range(len(points)), list(labels.values()))
    axes.tick_params(length=0)


FIGURES = {"map": draw_map}
