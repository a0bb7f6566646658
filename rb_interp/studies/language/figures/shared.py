"""Panels that several figures of the language study are made of: a reading's seeds at every place that has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.panels import by_gamma, gamma_axis, offsets, seeds_at
from rb_interp.figures.style import GREY, WIDTH, gamma_colour, gamma_marker, new_figure
from rb_interp.statistics.intervals import Interval

Seeds = tuple[pd.Series, Interval]
"""Values by seed, and their interval."""


class StyledReading(NamedTuple):
    """A reading over the rates of a run, and how it is drawn.

    Attributes:
        quantity, stage: what is read. shift: where it stands beside the place of its rate.
        colour, marker: its look; those of the rate where the colour is empty.
    """

    quantity: str
    shift: float
    colour: str = ""
    marker: str = "o"
    stage: str = "final"


class Drawn(NamedTuple):
    """A reading at one rate, as it was drawn: its quantity and stage, and where it stands on the axis."""

    quantity: str
    stage: str
    gamma: float
    x: float


def rate_columns(evidence: Evidence, height: float, rows: int = 1) -> tuple[Figure, list[list[Axes]]]:
    """A figure with a column for each rate; MissingEvidenceError where the run has no member."""
    columns = len(evidence.shown_gammas)
    figure = new_figure(height, max(WIDTH, 2.1 * columns))
    return figure, figure.subplots(rows, columns, sharey=True, squeeze=False).tolist()


def seeds_by_rate(evidence: Evidence, probe: str, quantity: str, stage: str = "final") -> dict[float, Seeds]:
    """A reading at every rate that has it; empty where the run lacks it."""
    try:
        found = by_gamma(evidence, probe, quantity, stage=stage)
    except MissingEvidenceError:
        return {}
    return {g: (values, evidence.interval(probe, quantity, g, stage=stage)) for g, values in found.items()}


def at_rates(axes: Axes, evidence: Evidence, probe: str, series: list[StyledReading], spread: float) -> list[Drawn]:
    """Seeds and interval of readings at every rate that has them, with the axis of rates; returns what was drawn.

    Raises MissingEvidenceError where the run has none of them.
    """
    drawn, gammas = [], evidence.gammas
    for one in series:
        for gamma, seeds in seeds_by_rate(evidence, probe, one.quantity, one.stage).items():
            colour = one.colour or gamma_colour(gamma, gammas)
            marker = one.marker if one.colour else gamma_marker(gamma, gammas)
            x = gammas.index(gamma) + one.shift
            seeds_at(axes, x, *seeds, colour, marker, spread)
            drawn.append(Drawn(one.quantity, one.stage, gamma, x))
    if not drawn:
        raise MissingEvidenceError(f"This run has no reading of {probe} at stage {series[0].stage}.")
    gamma_axis(axes, evidence)
    return drawn


def at_places(
    axes: Axes, evidence: Evidence, found: Mapping[str, Mapping[float, Seeds]], labels: list[str], width: float
) -> list[tuple[str, float, float]]:
    """Seeds and interval at named places, the rates beside each other; returns name, rate and x of what was drawn.

    Args:
        found: name -> rate -> what is drawn. labels: of the names. width: half of what the rates of a place take.
    """
    drawn, gammas = [], evidence.gammas
    for gamma, shift in zip(gammas, offsets(len(gammas), width).tolist(), strict=True):
        for place, name in enumerate(found):
            if gamma in found[name]:
                seeds_at(axes, place + shift, *found[name][gamma], gamma_colour(gamma, gammas), spread=0.035)
                drawn.append((name, gamma, place + shift))
    axes.set_xticks(range(len(labels)), labels)
    axes.set_xlim(-0.5, len(labels) - 0.5)
    return drawn


def null_of(evidence: Evidence, probe: str, quantity: str, gamma: float, stage: str = "final") -> tuple[float, float]:
    """Mean over seeds of the null's mean and standard deviation; NaN where the run has none."""
    for row in evidence.records("nulls", probe=probe, quantity=quantity, gamma=gamma, stage=stage):
        return float(row["null_mean"]), float(row["null_sd"])
    return float("nan"), float("nan")


def zero_line(axes: Axes, y: float = 0.0) -> None:
    """A thin line at 0, or where nothing differs."""
    axes.axhline(y, color=GREY, lw=0.8, zorder=0)
