"""Panels that several figures of the language study are made of: a reading's seeds at every place that has it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes

from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.panels import gamma_axis, offsets, seeds_at
from rb_interp.figures.style import GREY, gamma_colour, gamma_marker
from rb_interp.statistics.intervals import Interval


@dataclass(frozen=True)
class Series:
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


@dataclass(frozen=True)
class Drawn:
    """A reading at one rate, as it was drawn."""

    series: Series
    gamma: float
    place: int
    x: float


def at_rates(axes: Axes, evidence: Evidence, probe: str, series: list[Series], spread: float) -> list[Drawn]:
    """Seeds and interval of readings at every rate that has them, with the axis of rates; returns what was drawn.

    Raises MissingEvidenceError where the run has none of them.
    """
    found = []
    for one in series:
        for place, gamma in enumerate(evidence.gammas):
            read = reading(evidence, probe, one.quantity, gamma, one.stage)
            if read is None:
                continue
            look = one.colour or gamma_colour(gamma, evidence.gammas)
            marker = one.marker if one.colour else gamma_marker(gamma, evidence.gammas)
            seeds_at(axes, place + one.shift, *read, look, marker, spread)
            found.append(Drawn(one, gamma, place, place + one.shift))
    at_least_one(found, f"This run has no reading of {probe} at stage {series[0].stage}.")
    gamma_axis(axes, evidence)
    return found


def reading(
    evidence: Evidence, probe: str, quantity: str, gamma: float, stage: str = "final"
) -> tuple[pd.Series, Interval] | None:
    """Values by seed and their interval; None where the run has no such reading."""
    try:
        values = evidence.values(probe, quantity, gamma, stage=stage)
    except MissingEvidenceError:
        return None
    return values, evidence.interval(probe, quantity, gamma, stage=stage)


def at_least_one(found: list, sentence: str) -> None:
    """Raise MissingEvidenceError with the sentence where nothing was found."""
    if not found:
        raise MissingEvidenceError(sentence)


def null_of(evidence: Evidence, probe: str, quantity: str, gamma: float, stage: str = "final") -> tuple[float, float]:
    """Mean over seeds of the null's mean and standard deviation; NaN where the run has none."""
    try:
        row = evidence.table("nulls", probe=probe, quantity=quantity, gamma=gamma, stage=stage).iloc[0]
    except MissingEvidenceError:
        return float("nan"), float("nan")
    return float(row["null_mean"]), float(row["null_sd"])


def beside_rates(evidence: Evidence, width: float) -> Iterator[tuple[float, float]]:
    """Every rate with its shift from the middle of a place that all rates share."""
    yield from zip(evidence.gammas, offsets(len(evidence.gammas), width).tolist(), strict=True)


def zero_line(axes: Axes, y: float = 0.0) -> None:
    """A thin line at 0, or where nothing differs."""
    axes.axhline(y, color=GREY, lw=0.8, zorder=0)
