"""Words in figures: legends, notes, margins, and sentences in place of what a run lacks."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.kit.style import INK
from rb_interp.statistics.intervals import seeds_text

PLACEHOLDER: dict[str, Any] = {
    "ha": "center",
    "va": "center",
    "color": "#555555",
    "style": "italic",
}
"""The look of a sentence in place of a plot."""


def say(axes: Axes, sentence: str, width: int = 28) -> None:
    """Show a sentence in place of a plot."""
    axes.set(xticks=[], yticks=[], facecolor="#f6f6f6")
    axes.spines[:].set_visible(False)
    wrapped = "\n".join(textwrap.wrap(sentence, width))
    axes.text(0.5, 0.5, wrapped, transform=axes.transAxes, **PLACEHOLDER)


@contextmanager
def missing(axes: Axes) -> Iterator[None]:
    """Show the sentence of a MissingEvidenceError in place of the plot."""
    try:
        yield
    except MissingEvidenceError as sentence:
        axes.clear()
        say(axes, str(sentence))


def legend(figure: Figure, columns: int = 4, extra: Sequence[Any] = ()) -> None:
    """One legend above all panels: everything that carries a label, each label once, ``extra``."""
    entries = {}
    for axes in figure.axes:
        artists, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(labels, artists, strict=True))
    entries |= {entry.get_label(): entry for entry in extra}
    if entries:
        labels = list(entries)
        figure.legend([*entries.values()], labels, loc="outside upper center", ncols=columns)


def line(label: str, colour: object, style: Any = "-", width: float = 1.6, **look: Any) -> Line2D:
    """An entry of a legend; ``marker`` and the like may be given too."""
    return Line2D([], [], **{"color": colour, "ls": style, "lw": width, "label": label, **look})


def key(label: str, colour: object = INK, marker: str = "o", filled: bool = False) -> Line2D:
    """An entry of a legend: a hollow marker, or a filled one with a white edge."""
    inside, edge = (colour, "white") if filled else ("white", colour)
    return line(label, colour, "", marker=marker, ms=5 if filled else 4, mfc=inside, mec=edge)


def margin(axes: Axes, heights: Mapping[str, float]) -> None:
    """Words on the right of a panel, each at its height in data, so that none lies over another."""
    look: dict[str, Any] = {"fontsize": 6, "va": "center", "linespacing": 1.15}
    if len(heights) == 1:
        for text, y in heights.items():
            axes.annotate(text, (1.02, y), xycoords=axes.get_yaxis_transform(), **look)
        return
    axes.autoscale_view()
    in_panel = axes.transData - axes.transAxes
    last = -1.0
    for text, y in sorted(heights.items(), key=lambda entry: entry[1]):
        last = max(float(in_panel.transform((0, y))[1]), last + 0.085)
        axes.annotate(text, (1.02, last), xycoords="axes fraction", **look)


def note(
    axes: Axes,
    text: str,
    point: tuple[float, float],
    coordinates: Any,
    halo: float = 2.0,
    **look: Any,
) -> None:
    """Small text, readable on whatever lies under it; ``look`` goes to ``Axes.annotate``."""
    look = {"fontsize": 6.5, "zorder": 9, "textcoords": "offset points", "xytext": (0, 0), **look}
    axes.annotate(
        text,
        point,
        xycoords=coordinates,
        path_effects=[withStroke(linewidth=halo, foreground="white")],
        **look,
    )


def title_of(evidence: Evidence, gamma: float) -> str:
    """A rate and how many seeds it has, above a column of panels."""
    seeds = evidence.curves.loc[evidence.curves["gamma"] == gamma, "seed"].nunique()
    return f"γ = {gamma:g}   ({seeds_text(seeds)})"
