"""Legends: one entry for each thing that figures draw, so that the same thing looks and is called the same everywhere.

legend.above(figure, [*legend.sets(), legend.seed(), legend.untrained()], columns=5)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from rb_interp.figures.style import (
    CORPUS_COLOURS,
    CORPUS_MARKERS,
    DASHED,
    GREY,
    INK,
    SET_COLOURS,
    SET_LINES,
    SETS,
    gamma_colour,
    gamma_marker,
)

Entry = Line2D | Patch


def above(figure: Figure, entries: Sequence[Entry], columns: int, **spacing: Any) -> None:
    """Put a legend above all panels of a figure."""
    figure.legend(handles=list(entries), loc="outside upper center", ncols=columns, **spacing)


def panel(axes: Axes, place: Any, entries: Sequence[Entry] | None = None, **look: Any) -> None:
    """Put a legend into one panel: of ``entries``, or of all that is drawn there with a label."""
    handles = axes.get_legend_handles_labels()[0] if entries is None else list(entries)
    axes.legend(handles=handles, loc=place, **look)


def line(label: str, colour: object, style: object = "-", width: float | int = 1.6, **look: Any) -> Line2D:
    """A line; ``marker`` and the like may be given too."""
    return Line2D([], [], color=colour, ls=style, lw=width, label=label, **look)  # pyright: ignore[reportArgumentType]


def mark(
    label: str, colour: object, marker: str = "o", size: float | int = 4.0, filled: bool = False, **look: Any
) -> Line2D:
    """A marker without a line: hollow, or filled with a white edge."""
    inside, edge = (colour, "white") if filled else ("white", colour)
    return Line2D(
        [], [], **{"ls": "", "marker": marker, "ms": size, "mfc": inside, "mec": edge, "label": label, **look}
    )


def area(label: str, colour: object, hatch: str = "", edge: str = "none", width: float | int = 0.4) -> Patch:
    """A filled area."""
    return Patch(fc=colour, hatch=hatch, ec=edge, lw=width, label=label)  # pyright: ignore[reportArgumentType]


def sets(width: float | int = 1.7, **look: Any) -> list[Line2D]:
    """The three sets of inputs: memory, reasoning trained on, reasoning held out."""
    return [line(SETS[name], SET_COLOURS[name], SET_LINES[name], width, **look) for name in SETS]


def corpora(names: Mapping[str, str], **look: Any) -> list[Line2D]:
    """Corpora of text, by their name in `style.CORPUS_COLOURS` and what they are called."""
    return [mark(called, CORPUS_COLOURS[name], CORPUS_MARKERS[name], **look) for name, called in names.items()]


def gammas(found: list[float], filled: bool = False, **look: Any) -> list[Line2D]:
    """Initialisation rates of a run: colour and marker of each, as in `style.gamma_colour`."""
    entries = []
    for gamma in found:
        colour = gamma_colour(gamma, found)
        inside = {"mec": "white", "mew": 0.5, "ms": 5} if filled else {"mfc": "white", "ms": 4}
        entries.append(line(f"γ = {gamma:g}", colour, **{"marker": gamma_marker(gamma, found), **inside, **look}))
    return entries


def seed(label: str = "one seed", colour: object = GREY) -> Line2D:
    """The thin line of one seed."""
    return line(label, colour, width=0.6)


def seed_dot(label: str = "one seed", colour: object = INK, marker: str = "o", **look: Any) -> Line2D:
    """The hollow dot of one seed."""
    return mark(label, colour, marker, **look)


def mean_interval(colour: object = INK, upright: bool = True, label: str = "mean, 95 % interval") -> Line2D:
    """Mean over seeds as a bar across the whisker of its interval (``upright``), or along it."""
    bar = {"marker": "_", "mew": 2.2} if upright else {"marker": "|", "mew": 1.8}
    return line(label, colour, width=1.1, ms=6, **bar)


def untrained(label: str = "untrained models", colour: object = GREY, width: float | int = 2.4) -> Line2D:
    """Mean of the same models at step 0."""
    return line(label, colour, width=width)


def threshold(label: str = "threshold", colour: object = INK, style: object = DASHED) -> Line2D:
    """What a claim or a condition is judged against."""
    return line(label, colour, style, 0.9)
