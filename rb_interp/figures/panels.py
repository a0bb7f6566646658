"""What several figures share: heat maps that mark NaN, seeds with their interval, a sentence in an empty panel."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from numpy.typing import ArrayLike

from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.numbers import interval_text, number
from rb_interp.figures.style import COSINES, GREY, INK, gamma_colour, gamma_marker, new_figure
from rb_interp.statistics.intervals import Interval, t_interval


@dataclass(frozen=True)
class Caption:
    """What a figure shows in this run, and what would have refuted the paper's claim."""

    seen: str
    would_refute: str

    def __str__(self) -> str:
        return f"{self.seen} Would refute: {self.would_refute}"


def seed_interval(values: ArrayLike) -> Interval:
    """Mean over seeds and its 95 % interval; the ends are NaN below two seeds, which tell nothing of the spread."""
    found = t_interval(np.asarray(values, dtype=float).tolist())
    return found if np.isfinite(found.low) else Interval(found.estimate, np.nan, np.nan)


def over_seeds(
    evidence: Evidence, probe: str, quantity: str, gamma: float, *, stage: str = "final", rows: str = ""
) -> str:
    """``mean [low, high]`` of a reading over seeds, for captions; ``n/a`` where the run lacks it."""
    try:
        return interval_text(*seed_interval(evidence.values(probe, quantity, gamma, stage=stage, rows=rows)))
    except MissingEvidenceError:
        return number(None)


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
    low: float = -1.0,
    high: float = 1.0,
    colours: str | Colormap = COSINES,
    write: Callable[[float], str] | None = None,
    text: float = 62.0,
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
        axes.add_patch(_missing_cell(row, column))
    if write is not None:
        for row, column in np.argwhere(~np.ma.getmaskarray(shown)).tolist():
            shade = image.to_rgba(matrix[row, column])
            ink = "white" if np.dot(shade[:3], (0.299, 0.587, 0.114)) < 0.5 else INK
            size = min(7.0, text / max(matrix.shape))
            axes.text(
                column, row, write(float(matrix[row, column])), ha="center", va="center", color=ink, fontsize=size
            )
    if labels is not None:
        names = [str(label) for label in labels]
        axes.set_xticks(range(matrix.shape[1]), names)
        axes.set_yticks(range(matrix.shape[0]), names)
    axes.tick_params(length=0)
    return image


def _missing_cell(row: int, column: int) -> Rectangle:
    return Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor="#f3f3f3", edgecolor=GREY, hatch="xxxx", linewidth=0)


def two_digits(value: float) -> str:
    """A cosine in a cell: ``.93``, ``−.08``, ``1``."""
    text = f"{value:.2f}".replace("-0.00", "0.00")
    text = {"1.00": "1", "-1.00": "−1", "0.00": "0"}.get(text, text)
    return text.replace("0.", ".").replace("-", "−")


def offsets(n: int, spread: float = 0.09) -> Float[np.ndarray, " seed"]:
    """Places of n seeds beside each other around 0."""
    return np.linspace(-spread, spread, n) if n > 1 else np.zeros(n)


def seeds_at(axes: Axes, x: float, values: ArrayLike, colour: object, marker: str = "o", spread: float = 0.09) -> None:
    """Seeds as open dots beside each other; on their right the mean as a bar and its 95 % interval as a whisker."""
    values = np.asarray(values, dtype=float)
    axes.plot(x + offsets(len(values), spread), values, marker, ms=3.6, mfc="white", mec=colour, mew=0.9, zorder=3)
    mean, low, high = seed_interval(values)
    at = x + 2.1 * spread
    axes.plot(
        [at - 0.4 * spread, at + 0.4 * spread], [mean, mean], color=colour, lw=2.4, zorder=4, solid_capstyle="butt"
    )
    if np.isfinite(low):
        axes.plot([at, at], [low, high], color=colour, lw=1.2, zorder=2)


def seeds_by_gamma(
    axes: Axes, evidence: Evidence, probe: str, quantity: str, *, stage: str = "final", rows: str = ""
) -> None:
    """A quantity's seeds and interval at every rate of the run, with the untrained twins' mean as a grey dash."""
    found = 0
    for place, gamma in enumerate(evidence.gammas):
        try:
            values = evidence.values(probe, quantity, gamma, stage=stage, rows=rows)
        except MissingEvidenceError:
            axes.text(place, 0.02, "no reading", rotation=90, ha="center", va="bottom", color=GREY,
                      transform=axes.get_xaxis_transform())  # fmt: skip
            continue
        found += 1
        seeds_at(axes, float(place), values, gamma_colour(gamma, evidence.gammas), gamma_marker(gamma, evidence.gammas))
        twin = evidence.twin(probe, quantity, gamma, stage=stage, rows=rows)
        axes.plot([place - 0.3, place - 0.14], [twin, twin], color=GREY, lw=2.4, zorder=4, solid_capstyle="butt")
    if not found:
        raise MissingEvidenceError(f"This run has no reading of {probe} ({quantity}) at stage {stage}.")
    gamma_axis(axes, evidence)


def gamma_axis(axes: Axes, evidence: Evidence) -> None:
    """One tick per rate, ascending, with the direction in words."""
    axes.set_xticks(range(len(evidence.gammas)), [f"{gamma:g}" for gamma in evidence.gammas])
    axes.set_xlim(-0.5, len(evidence.gammas) - 0.4)
    axes.set_xlabel("rate γ  (→ smaller initialisation)")


def criterion_at(axes: Axes, evidence: Evidence, gamma: float, y: float, text: str, below: bool = False) -> None:
    """A criterion as a dashed line at the one rate that it is about; nothing where the run lacks that rate."""
    if gamma not in evidence.gammas:
        return
    place = evidence.gammas.index(gamma)
    axes.plot([place - 0.36, place + 0.36], [y, y], color=INK, lw=0.9, ls=(0, (3, 1.5)), zorder=1)
    axes.annotate(text, (place - 0.36, y), xytext=(0, -2 if below else 2), textcoords="offset points", fontsize=6.5,
                  ha="left", va="top" if below else "bottom", zorder=9,
                  path_effects=[withStroke(linewidth=2, foreground="white")])  # fmt: skip


def threshold(axes: Axes, y: float, text: str, colour: str = INK, x: float = 0.01) -> None:
    """A criterion as a dashed line across the panel with its claim written on it."""
    axes.axhline(y, color=colour, lw=0.9, ls=(0, (3, 1.5)), zorder=1)
    axes.annotate(text, (x, y), xycoords=axes.get_yaxis_transform(), xytext=(0, 1.5), textcoords="offset points",
                  color=colour, fontsize=6.5, va="bottom", ha="left" if x < 0.5 else "right", zorder=9,
                  path_effects=[withStroke(linewidth=2, foreground="white")])  # fmt: skip
