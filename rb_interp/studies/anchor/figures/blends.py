"""Blends of two circuits: each probe's number along the share of the other circuit, and where it changes its mind."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.figures import legend
from rb_interp.figures.save import render
from rb_interp.figures.style import BLUE, DASHED, GREY, MARKERS, RED, new_figure, styled
from rb_interp.files import write_bytes
from rb_interp.studies.anchor.detectors import NAMES

COLOURS = dict(zip(NAMES, (BLUE, RED), strict=True))
X = "share of key-to-anchors in the right answer's margin"


@styled
def draw_blends(means: pd.DataFrame) -> Figure:
    """Left: mean over pairs of what each probe reads. Right: the share of pairs of which it says yes.

    ``means`` is the table of ``blends.blend_means``.
    """
    figure = new_figure(3.9)
    left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
    for quantity, marker in zip(dict.fromkeys(means["quantity"]), cycle(MARKERS), strict=False):
        rows = means.loc[means["quantity"] == quantity]
        first = rows.iloc[0]
        label, colour = f"{first['probe']}: {first['quantity']}", COLOURS[first["of"]]
        left.plot(rows["share"], rows["mean"], marker=marker, ms=3.5, lw=1, color=colour, label=label)
    for threshold in sorted(means["threshold"].unique()):
        left.axhline(threshold, color=GREY, lw=0.7, ls=DASHED)
        left.annotate(f"{threshold:.2f}", (1.03, threshold), color=GREY, va="center", annotation_clip=False)
    left.set(xlim=(-0.02, 1.02), ylim=(-0.03, 1.05), xlabel=X, ylabel="what the probe reads")
    left.set_title(f"Readings (mean of {means['n'].max()} pairs; dashed: thresholds)")
    _minds(right, means)
    legend.above(figure, left.get_legend_handles_labels()[0], columns=2, fontsize=6)
    return figure


def _minds(axes: Axes, means: pd.DataFrame) -> None:
    """One row for each probe: a disc as dark as the share of pairs of which it says yes."""
    probes = list(dict.fromkeys(means["probe"]))
    for at, probe in enumerate(probes):
        rows = means.loc[means["probe"] == probe].drop_duplicates("share")
        colour = COLOURS[rows["of"].iloc[0]]
        axes.axhline(at, color=GREY, lw=0.4, zorder=1)
        height = np.full(len(rows), at)
        axes.scatter(rows["share"], height, s=34, facecolor="white", edgecolor=colour, lw=0.8, zorder=2)
        axes.scatter(rows["share"], height, s=34, color=colour, alpha=rows["met"].to_numpy(), lw=0, zorder=3)
    axes.set(xlim=(-0.05, 1.05), ylim=(len(probes) - 0.5, -0.5), xlabel="share of key-to-anchors")
    axes.set_yticks(range(len(probes)), probes)
    axes.set_title("Says yes (filled: of every pair)")


def save_blends(means: pd.DataFrame, path: Path) -> None:
    """Write the figure as PNG or SVG, as the file's name ends."""
    write_bytes(path, render(draw_blends(means), path.suffix.removeprefix(".")))
