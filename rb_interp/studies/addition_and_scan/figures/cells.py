"""The four cells of gamma and weight decay, as every figure of this study shows them."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.panels import seeds_at
from rb_interp.figures.style import GAMMA_RAMP, INK
from rb_interp.studies.addition_and_scan.config import DECAYS, LARGE, SMALL

GAMMAS = (LARGE, SMALL)
COLOURS = {LARGE: GAMMA_RAMP(0.0), SMALL: GAMMA_RAMP(1.0)}
MARKERS = {"low": "o", "high": "s"}
CELLS = tuple((decay, gamma) for gamma in GAMMAS for decay in DECAYS)
"""Weight decay and gamma."""
APART = 0.2
"""Distance of neighbouring cells on an axis."""


def cell_text(decay: str, gamma: float) -> str:
    """What a cell is called.

    >>> cell_text("high", 0.8)
    'γ = 0.8, weight decay 0.1'
    """
    return f"γ = {gamma:g}, weight decay {DECAYS[decay]:g}"


def draw_shares(axes: Axes, evidence: Evidence, task: str, set: str, place: int) -> int:
    """The share of right answers of every member on a set, cells beside each other around a place of the axis.

    Args:
        task: first part of the sweeps' names. set: whose rows. place: on the axis.

    Returns how many cells were drawn, those without readings left out.
    """
    drawn = 0
    for number, (decay, gamma) in enumerate(CELLS):
        sweep = evidence.sweep(f"{task}_{decay}")
        try:
            values = sweep.values("answers", "right", gamma, set=set)
        except MissingEvidenceError:
            continue
        x, interval = place + (number - 1.5) * APART, sweep.interval("answers", "right", gamma, set=set)
        seeds_at(axes, x, values, interval, COLOURS[gamma], MARKERS[decay], spread=0.04)
        drawn += 1
    return drawn


def legend_entries() -> list[Line2D]:
    """The cells, and what dots and whiskers are."""
    lines = [
        legend.line(cell_text(*cell), COLOURS[cell[1]], width=1.2, marker=MARKERS[cell[0]], ms=3.8, mfc="white")
        for cell in CELLS
    ]
    return [*lines, legend.seed_dot(), legend.mean_interval(INK)]
