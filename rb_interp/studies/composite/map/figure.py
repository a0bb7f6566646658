"""The phase map: one panel an axis, one cell a point and gamma, divided among the phases of its members."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.numbers import seeds_text
from rb_interp.figures.spec import Caption, FigureSpec
from rb_interp.figures.style import WIDTH, new_figure, styled
from rb_interp.studies.composite.map.config import AXES
from rb_interp.studies.composite.phase import INFERENTIAL, MIXED, PHASES, SYMMETRIC, UNFIT

COLOURS = {UNFIT: "#c9c9c9", INFERENTIAL: "#4b7fd0", SYMMETRIC: "#d9695f", MIXED: "#f0d98c"}
INK = "#1c1c1c"
PANELS = ("depth", "rate", "decay", "gpt2", "unseen_rate", "unseen_decay")


@styled
def draw_map(evidence: Evidence) -> Figure:
    """Every axis, save one whose only point stands on another axis too; MissingEvidenceError without members."""
    n_points = {axis: len(_of_axis(evidence, axis, "point")) for axis in PANELS}
    if not any(n_points.values()):
        raise MissingEvidenceError("This run has no members.")
    shown = {sweep for axis in PANELS if n_points[axis] > 1 for sweep in _of_axis(evidence, axis, "sweep")}
    drawn = []
    for axis in PANELS:
        own = _of_axis(evidence, axis, "sweep")
        if n_points[axis] > 1 or own - shown:
            drawn.append(axis)
            shown |= own
    n_rows = -(-len(drawn) // 3)
    n_columns = -(-len(drawn) // n_rows)
    most = [max(n_points[axis] for axis in drawn[at : at + n_columns]) for at in range(0, len(drawn), n_columns)]
    heights = [max(2.1, 0.6 + 0.25 * points) for points in most]
    figure = new_figure(0.4 + sum(heights), WIDTH)
    ratios = {"width_ratios": (1.35, 1.0, 1.0)[:n_columns], "height_ratios": heights}
    panels = figure.subplots(n_rows, n_columns, squeeze=False, **ratios).ravel()
    for axes in panels[len(drawn) :]:
        axes.remove()
    for axes, axis in zip(panels, drawn, strict=False):
        axes.set_title(AXES[axis])
        _panel(axes, evidence, axis)
    entries: list[legend.Entry] = [legend.area(phase, COLOURS[phase]) for phase in PHASES]
    if any(row["crossing"] for axis in drawn for row in evidence.records("boundaries", axis=axis)):
        entries.append(legend.line("boundary γ*, 95 % interval", INK, "-", 1.0, marker="D", ms=3.2))
    legend.above(figure, entries, columns=len(entries))
    return figure


def _of_axis(evidence: Evidence, axis: str, column: str) -> set:
    return {row[column] for row in evidence.records("cells", axis=axis)}


def _panel(axes: Axes, evidence: Evidence, axis: str) -> None:
    rows = evidence.records("cells", axis=axis)
    gammas = sorted({row["gamma"] for row in rows})
    labels = dict(sorted({row["point"]: row["label"] for row in rows}.items()))
    widths, points = {}, list(labels)
    for row in sorted(rows, key=lambda row: PHASES.index(row["phase"])):
        if not row["n"]:
            continue
        cell = gammas.index(row["gamma"]), points.index(row["point"])
        done, width = widths.get(cell, 0.0), row["share"] * 0.94
        widths[cell] = done + width
        left, bottom = cell[0] - 0.47 + done, cell[1] - 0.43
        axes.add_patch(Rectangle((left, bottom), width, 0.86, fc=COLOURS[row["phase"]], ec="white", lw=0.4))
        look = {"ha": "center", "va": "center", "fontsize": 5.5, "color": INK}
        axes.text(left + width / 2, cell[1], str(row["n"]), **look)
    _boundaries(axes, evidence, axis, gammas, points)
    axes.set(xlim=(-0.55, len(gammas) - 0.45), ylim=(-0.55, len(points) - 0.4), xlabel="γ")
    axes.set_xticks(range(len(gammas)), [f"{gamma:g}" for gamma in gammas])
    axes.set_yticks(range(len(points)), list(labels.values()))
    axes.tick_params(length=0)


def _boundaries(axes: Axes, evidence: Evidence, axis: str, gammas: list[float], points: list[float]) -> None:
    """gamma* with its interval above each row that has a fitted member and a crossing."""
    fitted = {row["point"] for row in evidence.records("cells", axis=axis) if row["n"] and row["phase"] != UNFIT}
    for row in evidence.records("boundaries", axis=axis):
        if row["crossing"] and row["point"] in fitted:
            low, at, high = np.interp([row["low"], row["gamma_star"], row["high"]], gammas, range(len(gammas)))
            top = points.index(row["point"]) + 0.5
            axes.plot([low, high], [top, top], color=INK, lw=1.0, zorder=6)
            axes.plot(at, top, "D", color=INK, ms=3.2, zorder=7)


def caption_map(evidence: Evidence) -> Caption:
    """Caption of the map, with what C7 to C12 judge; of axes that it has alone."""
    seeds, axes = seeds_text(len(evidence.seeds)), {row["axis"] for row in evidence.records("cells")}
    notes = {
        "The boundary γ*, drawn above its row, is the mean over seeds of where I − S first crosses 0; a seed without a "
        "crossing counts with the end of the grid. It is left out where no member is fitted or no seed has one.": bool(
            evidence.records("boundaries")
        ),
        "“Both unseen”: neither the held-out pair nor its mirror is trained, with three layers, so that hardly "
        "anything can be symmetric.": bool(axes & {"unseen_rate", "unseen_decay"}),
    }
    return Caption(
        f"Phases of members at the last step, {seeds} a cell: each cell is divided from left to right among the phases "
        "of its members, with their number. A larger γ is a smaller initialisation. "
        + " ".join(note for note, needed in notes.items() if needed),
        "no blue to the right of red (C7, C9); fitted members as far left at six layers as at two (C8); as "
        "much blue at the lowest learning rate or weight decay as at the highest (C10, C11).",
    )


FIGURES = (
    FigureSpec(
        "map", "Phases by initialisation and depth, learning rate, weight decay, block (after Figs. 2 and 14)",
        draw_map, caption_map, ("C7", "C8", "C9", "C10", "C11", "C12")
    ),
)  # fmt: skip
