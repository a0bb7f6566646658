"""Panels of figures: learning curves, seeds by rate or by name, bars, thresholds, matrices."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.image import AxesImage
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
from numpy.typing import ArrayLike

from rb_interp.claims.claim import Term
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.kit.figure import (
    ATTENTION,
    COSINES,
    DASHED,
    GREY,
    INK,
    gamma_look,
    margin,
)
from rb_interp.plots import hatch, is_dark
from rb_interp.statistics.intervals import Interval, interval_or_nan, two_digits

MAX_POINTS = 400
"""A curve is thinned to this many evaluations."""
STEP_UNITS = {1_000_000: " (millions)", 1000: " (thousands)", 1: ""}


def curve(
    axes: Axes,
    evidence: Evidence,
    gamma: float,
    set: str,
    quantity: str,
    colour: Any,
    style: Any = "-",
    label: str = "",
) -> pd.DataFrame:
    """A set's learning curve (``loss`` in nats, ``accuracy``): seeds, mean, interval. Returns steps
    by seeds."""
    rows = evidence.curves.query("abs(gamma - @gamma) < 1e-9 and set == @set")
    if rows.empty:
        raise MissingEvidenceError(f"This run has no learning curve of {set} at γ = {gamma:g}.")
    means = evidence.table("curves_summary", gamma=gamma, set=set, quantity=quantity)
    seeds = band(axes, rows, quantity, means, colour, style, label=label)
    steps(axes, float(rows["step"].to_numpy().max()))
    return seeds


def band(
    axes: Axes,
    rows: pd.DataFrame,
    column: str,
    means: pd.DataFrame,
    colour: Any,
    style: Any = "-",
    limits: tuple[float, float] = (-np.inf, np.inf),
    label: str = "",
) -> pd.DataFrame:
    """A column along training: seeds as thin lines, their mean, and from three seeds on its
    interval as a band.

    Args:
        rows: step, seed and the column. means: step, mean, low, high, n; drawn at the steps that
            most seeds have.
        limits: where all is cut.

    Returns steps (ascending) by seeds.
    """
    seeds = rows.pivot(index="step", columns="seed", values=column).sort_index()
    positions = np.unique(np.linspace(0, len(seeds) - 1, MAX_POINTS).round().astype(int))
    means = means.set_index("step").sort_index()
    means = means.loc[
        means.index.isin(seeds.index[positions]) & (2 * means["n"] > means["n"].max())
    ]
    for values in seeds.iloc[positions].clip(*limits).items():
        values = values[1].dropna()
        axes.plot(values.index, values, color=colour, lw=0.5, alpha=0.45, zorder=2)
    if seeds.shape[1] > 2:
        low, high = means["low"].clip(*limits), means["high"].clip(*limits)
        axes.fill_between(means.index, low, high, color=colour, alpha=0.12, lw=0, zorder=1)
    axes.plot(means.index, means["mean"], color=colour, lw=1.7, ls=style, zorder=3, label=label)
    return seeds


def steps(axes: Axes, last: float, log: bool = False) -> None:
    """Axis of training steps up to ``last``, in thousands or millions where that reads better, or
    logarithmic."""
    unit, name = next((u, n) for u, n in STEP_UNITS.items() if last >= 2 * u or u == 1)
    if log:
        unit, name = 1, " (log scale)"
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 3) if last < 1e5 else (1,)))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_xlabel(f"training step{name}")
    axes.xaxis.set_major_formatter(lambda value, _position: f"{value / unit:,g}")


def kept_steps(axes: Axes, steps: np.ndarray) -> None:
    """Axis of kept steps: logarithmic from the first on, linear before it."""
    first = float(steps[steps > 0].min()) if (steps > 0).any() else 1.0
    axes.set_xscale("symlog", linthresh=first, linscale=0.5)
    axes.set_xlim(-0.2 * first, max(1.25 * float(steps.max()), first))
    axes.xaxis.set_major_formatter(lambda value, _position: f"{value:,g}")
    axes.set_xticks([], minor=True)
    axes.set_xlabel("training step")


SIGNS = {">=": "≥", "<=": "≤", ">": ">", "<": "<"}
"""Relations of a condition as they are printed."""


@dataclass(frozen=True)
class Series:
    """A reading as a panel shows it.

    Attributes:
        term: the number; the panel reads it at every rate in place of its gamma.
        label: in the legend. colour, marker: those of the rate if empty.
    """

    term: Term
    label: str = ""
    colour: str = ""
    marker: str = ""


def rates(
    axes: Axes,
    evidence: Evidence,
    *series: Series,
    untrained: bool = False,
    joined: bool = False,
    average: Literal["median", "mean"] = "median",
    width: float = 0.07,
    beside: Callable[[float, Series, Term], None] | None = None,
) -> None:
    """Readings of seeds at every rate, with median and range.

    Args:
        untrained: add the untrained models' mean as a grey bar. joined: join the members of a seed.
        average: ``median`` with range, or ``mean`` with 95 % interval.
        width: half of that of a rate's seeds.
        beside: draws more at a place: x, series, and its term at this rate.

    Raises MissingEvidenceError where nothing was read at any rate.
    """
    over_seeds = evidence.spread if average == "median" else evidence.interval
    shifts = np.linspace(-0.3, 0.3, len(series)) if len(series) > 1 else [0.0]
    reason = MissingEvidenceError("This run has no members.")
    any_values = False
    for reading, shift in zip(series, shifts, strict=True):
        lines: dict[float, pd.Series] = {}
        for number, gamma in enumerate(evidence.gammas):
            term = replace(reading.term, gamma=gamma)
            try:
                values = evidence.values(term)
            except MissingEvidenceError as error:
                reason = error
                continue
            any_values = True
            x = number + shift
            colour, marker = gamma_look(gamma, evidence.gammas)
            colour = reading.colour or colour
            marker = reading.marker or marker
            label = "" if lines else reading.label
            dots(axes, x, values, over_seeds(term), colour, marker, width, label)
            lines[x] = values
            if beside is not None:
                beside(x + width, reading, term)
            if untrained:
                mean = evidence.untrained(term)
                level(axes, x - 0.12, mean, GREY, 0.06, "untrained models")
        if joined:
            colour = reading.colour or GREY
            for values in pd.DataFrame(lines).to_numpy():
                axes.plot(list(lines), values, color=colour, lw=0.6, alpha=0.5, zorder=1)
    if not any_values:
        raise reason
    rates_axis(axes, evidence)


def rates_axis(axes: Axes, evidence: Evidence) -> None:
    """One tick per rate, ascending, with the direction in words."""
    axes.set_xticks(range(len(evidence.gammas)), [f"{gamma:g}" for gamma in evidence.gammas])
    axes.set_xlim(-0.5, len(evidence.gammas) - 0.4)
    axes.set_xlabel("rate γ  (→ smaller initialisation)" if len(evidence.gammas) > 1 else "rate γ")


def quantities(
    axes: Axes,
    evidence: Evidence,
    terms: Mapping[str, Term],
    relative: bool = False,
) -> None:
    """Seeds and their interval by name, the rates beside each other.

    Args:
        terms: name -> the number, which is read at every rate in place of its gamma.
        relative: show values over those of the untrained models.

    Raises MissingEvidenceError where a number was not read at some rate.
    """
    gammas = evidence.gammas
    shifts = np.linspace(-0.25, 0.25, len(gammas)) if len(gammas) > 1 else [0]
    for gamma, shift in zip(gammas, shifts, strict=True):
        colour, marker = gamma_look(gamma, gammas)
        label = f"γ = {gamma:g}"
        for number, term in enumerate(terms.values()):
            values = evidence.values(replace(term, gamma=gamma))
            if relative:
                values = values / evidence.values(replace(term, gamma=gamma), "untrained")
            interval = interval_or_nan(np.asarray(values))
            dots(axes, number + shift, values, interval, colour, marker, 0.035, label)
            label = ""
    axes.set_xticks(range(len(terms)), list(terms))
    axes.set_xlim(-0.5, len(terms) - 0.5)


def dots(
    axes: Axes,
    x: float,
    values: ArrayLike,
    interval: Interval | None,
    colour: Any,
    marker: str = "o",
    width: float = 0.09,
    label: str = "",
) -> None:
    """Seeds as open dots beside each other; on their right the mean or median as a bar, its
    interval as a whisker. ``width`` is half of that of the seeds."""
    values = np.asarray(values, dtype=float)
    shifts = np.linspace(-width, width, len(values)) if len(values) > 1 else 0
    open_dots(axes, x + shifts, values, colour, marker, ms=3.6, mew=0.9, zorder=3, label=label)
    if interval is not None:
        x += 2.1 * width
        level(axes, x, interval.estimate, colour, max(0.4 * width, 0.02))
        if np.isfinite(interval.low):
            axes.plot([x, x], interval[1:], color=colour, lw=1.2, zorder=2)


def open_dots(
    axes: Axes, x: ArrayLike, y: ArrayLike, colour: Any, marker: str = "o", **look: Any
) -> None:
    """Open dots; ``look`` goes to ``Axes.plot``."""
    look = {"ls": "", "mfc": "white", "mec": colour, **look}
    axes.plot(x, y, color=colour, marker=marker, **look)


def level(axes: Axes, x: float, y: float, colour: Any, half: float, label: str = "") -> None:
    """A level bar around a place: a mean, an untrained model, a null or a control."""
    look: dict[str, Any] = {"lw": 2.2, "zorder": 4, "solid_capstyle": "butt", "label": label}
    axes.plot([x - half, x + half], [y, y], color=colour, **look)


def stack(
    axes: Axes,
    position: float,
    shares: Mapping[str, float],
    look: Callable[[str], dict[str, Any]],
    alpha: float = 1.0,
    upright: bool = False,
) -> None:
    """Shares as the parts of one bar, from its beginning on.

    Args:
        look: name -> how its part is filled.
    """
    draw = axes.bar if upright else axes.barh
    start_name = "bottom" if upright else "left"
    start = 0.0
    for name, share in shares.items():
        if share > 0:
            options = {start_name: start, "alpha": alpha, "zorder": 2, **look(name)}
            draw(position, share, 0.8, **options)
            start += share


def threshold(
    axes: Axes, evidence: Evidence, claim: str, number: int = 0, gamma: float | None = None
) -> None:
    """What a condition of a claim is judged against: dashed, across the panel or at one rate.

    Draws nothing if the run lacks the rate; MissingEvidenceError if it does not judge the claim.
    """
    condition = evidence.condition(claim, number)
    y = condition.threshold
    if gamma is None:
        dashed(axes, 0, 1, y, transform=axes.get_yaxis_transform())
    elif gamma in evidence.gammas:
        x = evidence.gammas.index(gamma)
        dashed(axes, x - 0.4, x + 0.4, y)
    else:
        return
    margin(axes, {f"{claim}\n{SIGNS[condition.operator]} {two_digits(y)}": y})


def dashed(axes: Axes, left: float, right: float, y: float, **look: Any) -> None:
    """The line of a threshold between two places; ``look`` goes to ``Axes.plot``."""
    look = {"zorder": 1, **look}
    axes.plot([left, right], [y, y], color=INK, lw=0.9, ls=DASHED, **look)


def zero(axes: Axes, y: float = 0.0, **look: Any) -> None:
    """A thin line at 0, or where nothing differs; ``look`` goes to ``Axes.axhline``."""
    axes.axhline(y, **{"color": GREY, "lw": 0.8, "zorder": 0, **look})


def interval_of(row: Any) -> Interval:
    """The mean over seeds in a row of a table, with its ends."""
    return Interval(*(float(row[name]) for name in ("mean", "low", "high")))


def share_map(
    axes: Axes,
    shares: ArrayLike,
    rows: Sequence[Any],
    columns: Sequence[Any] | None = None,
    **look: Any,
) -> None:
    """A matrix of numbers from 0 to 1, written out; ``look`` goes to `heat_map`."""
    heat_map(axes, shares, rows, columns, low=0, colours=ATTENTION, write=two_digits, **look)


def heat_map(
    axes: Axes,
    matrix: ArrayLike,
    rows: Sequence[Any] | np.ndarray | None = None,
    columns: Sequence[Any] | np.ndarray | None = None,
    *,
    low: float = -1.0,
    high: float = 1.0,
    colours: str | Colormap = COSINES,
    write: Callable[[float], str] | None = None,
    aspect: str = "equal",
    size: float | None = None,
) -> AxesImage:
    """A matrix whose NaN cells are hatched.

    Args:
        rows, columns: names along the axes; columns are named as rows by default.
        low, high: ends of the scale of colours.
        write: makes the text of a cell, of ``size`` points; no text by default.
    """
    matrix = np.asarray(matrix, dtype=float)
    look: dict[str, Any] = {"vmin": low, "vmax": high, "cmap": colours, "aspect": aspect}
    image = axes.imshow(np.ma.masked_invalid(matrix), interpolation="nearest", **look)
    axes.spines[:].set_visible(False)
    for row, column in np.argwhere(np.isnan(matrix)).tolist():
        hatch(axes, row, column)
    points = size or min(7.0, 50 / max(matrix.shape))
    if write is not None:
        for row, column in np.argwhere(np.isfinite(matrix)).tolist():
            value = matrix[row, column]
            ink = "white" if is_dark(image.to_rgba(value)) else INK
            text = {"color": ink, "fontsize": points, "ha": "center", "va": "center"}
            axes.text(column, row, write(float(value)), **text)
    columns = rows if columns is None else columns
    for axis, names in ((axes.xaxis, columns), (axes.yaxis, rows)):
        if names is not None:
            axis.set_ticks(range(len(names)), [str(name) for name in names])
    axes.tick_params(length=0)
    return image
