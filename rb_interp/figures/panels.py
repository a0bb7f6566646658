"""What several figures share: heat maps that mark NaN, seeds with their interval, a sentence in an empty panel."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patheffects import withStroke
from numpy.typing import ArrayLike

from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.numbers import SIGNS, interval_text, two_digits
from rb_interp.figures.style import COSINES, DASHED, GREY, INK, gamma_colour, gamma_marker, new_figure
from rb_interp.plots import hatch, is_dark
from rb_interp.statistics.intervals import Interval

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "by_gamma",
    "gamma_axis",
    "heat_map",
    "interval_of",
    "level",
    "mean_at",
    "note",
    "offsets",
    "over_seeds",
    "say",
    "seeds_at",
    "seeds_by_gamma",
    "sentence_figure",
    "spread_of",
    "threshold",
    "threshold_at",
    "try_panel",
    "written",
]

Number = float | int


def over_seeds(
    evidence: Evidence,
    probe: str,
    quantity: str,
    gamma: float,
    write: Callable[[float, float, float], str] = interval_text,
    **where: Any,
) -> str:
    """``median [lowest, highest]`` of a reading over seeds, for captions and titles; ``n/a`` where the run lacks it.

    Args:
        write: from median and both ends to text. where: ``stage``, ``set``, ``deepest`` as in `Evidence.spread`.
    """
    return write(*evidence.spread(probe, quantity, gamma, **where))


def interval_of(row: Any) -> Interval:
    """The interval in one row (a dict or a Series) of a table over seeds, with ``mean``, ``low`` and ``high``."""
    return Interval(*(float(row[name]) for name in ("mean", "low", "high")))


def spread_of(row: Any) -> Interval:
    """Median and range in one row of a table over seeds, with ``median``, ``lowest`` and ``highest``."""
    return Interval(*(float(row[name]) for name in ("median", "lowest", "highest")))


def written(evidence: Evidence, claim: str, number: int = 0, word: str = "") -> str:
    """A threshold as a label: claim, relation, number, as in ``M4: ≥ .70``; ``word`` stands before the relation."""
    condition = evidence.condition(claim, number)
    text = f"{claim}: {word} {SIGNS[condition.operator]} {two_digits(condition.threshold)}"
    return text.replace(":  ", ": ")


def say(axes: Axes, sentence: str, width: int = 34) -> None:
    """Show a sentence in place of a plot."""
    axes.set(xticks=[], yticks=[], facecolor="#f6f6f6")
    for spine in axes.spines.values():
        spine.set_visible(False)
    wrapped = "\n".join(textwrap.wrap(sentence, width))
    axes.text(0.5, 0.5, wrapped, ha="center", va="center", transform=axes.transAxes, color="#555555", style="italic")


def sentence_figure(sentence: str) -> Figure:
    """A low figure with one sentence, where a run lacks everything that it would show."""
    figure = new_figure(1.0)
    say(figure.subplots(), sentence, width=90)
    return figure


def try_panel(axes: Axes, draw: Callable[..., object], *args: object, **kwargs: object) -> None:
    """Draw a panel, or say in it what this run lacks."""
    try:
        draw(axes, *args, **kwargs)
    except MissingEvidenceError as missing:
        axes.clear()
        say(axes, str(missing))


def heat_map(
    axes: Axes,
    matrix: Float[np.ndarray, "row column"],
    labels: Iterable[object] | None = None,
    *,
    low: Number = -1.0,
    high: Number = 1.0,
    colours: str | Colormap = COSINES,
    write: Callable[[float], str] | None = None,
    text: Number = 62.0,
    hidden: np.ndarray | None = None,
) -> AxesImage:
    """Draw a matrix; NaN cells are hatched, ``hidden`` cells left white, and ``write`` puts values into the others.

    The written values shrink with the matrix: ``text`` points over its side, 7 points at most.
    """
    matrix = np.asarray(matrix, dtype=float)
    hidden = np.zeros(matrix.shape, dtype=bool) if hidden is None else hidden
    shown = np.ma.masked_where(hidden | np.isnan(matrix), matrix)
    image = axes.imshow(shown, vmin=low, vmax=high, cmap=colours, interpolation="nearest", aspect="equal")
    for spine in axes.spines.values():
        spine.set_visible(False)
    for row, column in np.argwhere(np.isnan(matrix) & ~hidden).tolist():
        hatch(axes, row, column)
    if write is not None:
        for row, column in np.argwhere(~np.ma.getmaskarray(shown)).tolist():
            ink = "white" if is_dark(image.to_rgba(matrix[row, column])) else INK
            look = {"ha": "center", "va": "center", "color": ink, "fontsize": min(7.0, text / max(matrix.shape))}
            axes.text(column, row, write(float(matrix[row, column])), **look)
    if labels is not None:
        names = [str(label) for label in labels]
        axes.set_xticks(range(matrix.shape[1]), names)
        axes.set_yticks(range(matrix.shape[0]), names)
    axes.tick_params(length=0)
    return image


def offsets(n: int, spread: Number = 0.09) -> Float[np.ndarray, " seed"]:
    """Places of n seeds beside each other around 0."""
    return np.linspace(-spread, spread, n) if n > 1 else np.zeros(n)


def seeds_at(
    axes: Axes,
    x: Number,
    values: ArrayLike,
    interval: Interval,
    colour: object,
    marker: str = "o",
    spread: Number = 0.09,
) -> None:
    """Seeds as open dots beside each other; on their right the mean as a bar and its 95 % interval as a whisker."""
    values = np.asarray(values, dtype=float)
    axes.plot(x + offsets(len(values), spread), values, marker, ms=3.6, mfc="white", mec=colour, mew=0.9, zorder=3)
    mean_at(axes, x + 2.1 * spread, interval, colour, half=0.4 * spread)


def mean_at(
    axes: Axes,
    x: Number,
    interval: Interval,
    colour: object,
    half: Number = 0.036,
    bar: Number = 2.4,
    whisker: Number = 1.2,
) -> None:
    """A mean as a level bar of half-width ``half``, and its interval, where there is one, as an upright whisker."""
    mean, low, high = interval
    level(axes, x, mean, colour, half, bar, zorder=4)
    if np.isfinite(low):
        axes.plot([x, x], [low, high], color=colour, lw=whisker, zorder=2)


def level(
    axes: Axes, x: Number, y: Number, colour: object, half: Number, width: Number = 2.4, zorder: Number = 4
) -> None:
    """A level bar around a place, for a mean, an untrained model, or a control."""
    axes.plot([x - half, x + half], [y, y], color=colour, lw=width, zorder=zorder, solid_capstyle="butt")


def by_gamma(evidence: Evidence, probe: str, quantity: str, **where: Any) -> dict[float, pd.Series]:
    """One number per seed at every rate where it was read; ``where``: ``stage`` and ``set`` as in `Evidence.values`.

    Raises MissingEvidenceError where it was read at no rate.
    """
    found = {}
    for gamma in evidence.gammas:
        with suppress(MissingEvidenceError):  # a rate without the reading; the others are shown
            found[gamma] = evidence.values(probe, quantity, gamma, **where)
    if not found:
        stage = where.get("stage", "final")
        raise MissingEvidenceError(f"This run has no reading of {probe} ({quantity}) at stage {stage}.")
    return found


def seeds_by_gamma(axes: Axes, evidence: Evidence, probe: str, quantity: str, **where: Any) -> None:
    """A quantity's seeds, median and range at every rate of the run, with the untrained models' mean as a grey dash."""
    found, gammas = by_gamma(evidence, probe, quantity, **where), evidence.gammas
    for place, gamma in enumerate(gammas):
        if gamma not in found:
            no_reading(axes, place)
            continue
        spread = evidence.spread(probe, quantity, gamma, **where)
        seeds_at(axes, place, found[gamma], spread, gamma_colour(gamma, gammas), gamma_marker(gamma, gammas))
        level(axes, place - 0.22, evidence.untrained(probe, quantity, gamma, **where), GREY, half=0.08)
    gamma_axis(axes, evidence)


def no_reading(axes: Axes, place: Number, y: Number = 0.02, **look: Any) -> None:
    """Say at one rate that the run has no reading there."""
    look = {"va": "bottom", "color": GREY, **look}
    axes.text(place, y, "no reading", rotation=90, ha="center", transform=axes.get_xaxis_transform(), **look)


def note(
    axes: Axes, text: str, at: tuple[Number, Number], coordinates: object, halo: Number = 2.0, **look: Any
) -> None:
    """Small text beside a line, readable on whatever lies under it; ``look`` goes to ``Axes.annotate``."""
    look = {"fontsize": 6.5, "zorder": 9, "textcoords": "offset points", "xytext": (0, 0), **look}
    effect = [withStroke(linewidth=halo, foreground="white")]
    axes.annotate(text, at, xycoords=coordinates, path_effects=effect, **look)  # pyright: ignore[reportArgumentType]


def gamma_axis(axes: Axes, evidence: Evidence) -> None:
    """One tick per rate, ascending, with the direction in words."""
    axes.set_xticks(range(len(evidence.gammas)), [f"{gamma:g}" for gamma in evidence.gammas])
    axes.set_xlim(-0.5, len(evidence.gammas) - 0.4)
    axes.set_xlabel("rate γ  (→ smaller initialisation)")


def threshold_at(axes: Axes, evidence: Evidence, gamma: float, y: Number, text: str, below: bool = False) -> None:
    """A threshold as a dashed line at the one rate that it is about; nothing where the run lacks that rate."""
    if gamma not in evidence.gammas:
        return
    place = evidence.gammas.index(gamma)
    axes.plot([place - 0.36, place + 0.36], [y, y], color=INK, lw=0.9, ls=DASHED, zorder=1)
    look = {"xytext": (0, -2 if below else 2), "ha": "left", "va": "top" if below else "bottom"}
    note(axes, text, (place - 0.36, y), "data", **look)


def threshold(axes: Axes, y: Number, text: str, colour: str = INK, x: Number = 0.01) -> None:
    """A threshold as a dashed line across the panel with its claim written on it."""
    axes.axhline(y, color=colour, lw=0.9, ls=DASHED, zorder=1)
    look = {"xytext": (0, 1.5), "color": colour, "va": "bottom", "ha": "left" if x < 0.5 else "right"}
    note(axes, text, (x, y), axes.get_yaxis_transform(), **look)
