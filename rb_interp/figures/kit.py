"""One look for every figure, the panels that figures are made of, and files that are the same for
the same evidence.

Each panel takes axes and what is drawn; a figure then gets one legend of everything that carries a
label. A panel inside ``with missing(axes):`` becomes a sentence where the run lacks what it would
show.
"""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from io import BytesIO
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import Bbox
from numpy.typing import ArrayLike

from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.plots import hatch, is_dark
from rb_interp.statistics.formatting import seeds_text, two_digits
from rb_interp.statistics.intervals import Interval
from rb_interp.store import write_file

__all__ = [
    "Series",
    "band",
    "curve",
    "dots",
    "gamma_colour",
    "gamma_marker",
    "heat_map",
    "interval_of",
    "kept_steps",
    "key",
    "legend",
    "level",
    "line",
    "margin",
    "missing",
    "named",
    "new_figure",
    "note",
    "panels",
    "rates",
    "rates_axis",
    "say",
    "stack",
    "steps",
    "styled",
    "threshold",
    "zero",
]

SETS = {"mem": "memory", "rsn_train": "reasoning, trained on", "rsn_test": "reasoning, held out"}
SET_COLOURS = {"mem": "#0a3d91", "rsn_train": "#bf6fc4", "rsn_test": "#e07b00"}
SET_LINES = {"mem": "-", "rsn_train": "-", "rsn_test": (0, (4, 1.6))}

CORPUS_COLOURS = {"prontoqa": "#c4312a", "stories": "#0a3d91", "control": "#4b9fd8"}
"""Red and blue as in the paper; ``control`` is made of stories too. Lightness and markers differ as
well."""
CORPUS_MARKERS = {"prontoqa": "o", "stories": "s", "control": "D"}

KEY, REASONING, MEMORY, NOISE = "#d6c21a", "#6b3e1f", "#c39a6b", "#e4e4e4"
"""Roles and groups of tokens: key, reasoning anchors (and anchors of any kind), memory anchors,
noise. No set has them, and no rate."""
TRAINED = "#0c3f45"
"""What was trained or measured, beside what theory predicts: the dark end of the rates' ramp."""
RED, BLUE, GREY, INK = "#c4312a", "#0a3d91", "#8a8a8a", "#1c1c1c"

DASHED = (0, (3, 1.5))
"""The line of every threshold."""

COSINES = "RdBu_r"
GAMMA_RAMP = LinearSegmentedColormap.from_list("gamma", ["#9cc5bd", "#3f8f8b", "#0c3f45"])
ATTENTION = LinearSegmentedColormap.from_list(
    "attention", ["#ffffff", "#bcd9d4", "#3f8f8b", "#0c3f45"]
)
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "p")

WIDTH = 7.2
"""Inches, the text width of a paper with one column."""

STYLE = {
    "font.size": 7.5,
    "axes.titlesize": 8,
    "axes.labelsize": 7.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.edgecolor": "none",
    "legend.borderpad": 0.2,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#6b6b6b",
    "axes.linewidth": 0.7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "path.simplify_threshold": 0.4,
    "svg.fonttype": "path",
    "svg.hashsalt": "rb_interp",
}

DPI = 150
Drawing = Callable[[Evidence], Figure]
SAID: dict[str, Any] = {"ha": "center", "va": "center", "color": "#555555", "style": "italic"}
"""The look of a sentence in place of what is not there."""
P = ParamSpec("P")
R = TypeVar("R")
SIGNS = {">=": "≥", "<=": "≤", ">": ">", "<": "<"}
"""Relations of a condition as they are printed."""
DRAWN = 400
"""A curve is thinned to this many evaluations."""
UNITS = {1_000_000: " (millions)", 1000: " (thousands)", 1: ""}


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Run a drawing function with matplotlib's defaults and STYLE, whatever the caller has set;
    undone on leaving."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> R:
        with matplotlib.style.context(["default", STYLE]):
            return draw(*args, **kwargs)

    return drawn


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """An empty figure outside pyplot, so that nothing global is opened or has to be closed."""
    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.05, h_pad=0.05))


def gamma_colour(gamma: float, gammas: list[float]) -> tuple:
    """Colour of a rate within a run: darker for a smaller initialisation."""
    return GAMMA_RAMP(gammas.index(gamma) / max(len(gammas) - 1, 1))


def gamma_marker(gamma: float, gammas: list[float]) -> str:
    """Marker of a rate within a run, so that no panel rests on colour alone."""
    return MARKERS[gammas.index(gamma) % len(MARKERS)]


def say(axes: Axes, sentence: str, width: int = 28) -> None:
    """Show a sentence in place of a plot."""
    axes.set(xticks=[], yticks=[], facecolor="#f6f6f6")
    axes.spines[:].set_visible(False)
    wrapped = "\n".join(textwrap.wrap(sentence, width))
    axes.text(0.5, 0.5, wrapped, transform=axes.transAxes, **SAID)


def panels(
    rows: int, columns: int, height: float, width: float = WIDTH, **shared: Any
) -> tuple[Figure, np.ndarray]:
    """A figure and its axes, ``rows`` by ``columns``; ``shared`` goes to ``Figure.subplots``."""
    figure = new_figure(height, width)
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)


@contextmanager
def missing(axes: Axes) -> Iterator[None]:
    """Show the sentence of a MissingEvidenceError in place of the plot."""
    try:
        yield
    except MissingEvidenceError as sentence:
        axes.clear()
        say(axes, str(sentence))


def legend(figure: Figure, columns: int = 4, extra: Sequence[Any] = ()) -> None:
    """One legend above all panels: everything that carries a label, each label once, and
    ``extra``."""
    found = {
        label: artist
        for axes in figure.axes
        for artist, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    found |= {entry.get_label(): entry for entry in extra}
    if found:
        figure.legend(list(found.values()), list(found), loc="outside upper center", ncols=columns)


def line(label: str, colour: object, style: Any = "-", width: float = 1.6, **look: Any) -> Line2D:
    """An entry of a legend; ``marker`` and the like may be given too."""
    return Line2D([], [], **{"color": colour, "ls": style, "lw": width, "label": label, **look})


def key(label: str, colour: object = INK, marker: str = "o", filled: bool = False) -> Line2D:
    """An entry of a legend: a hollow marker, or a filled one with a white edge."""
    inside, edge = (colour, "white") if filled else ("white", colour)
    return line(label, colour, "", marker=marker, ms=5 if filled else 4, mfc=inside, mec=edge)


def interval_of(row: Any) -> Interval:
    """The mean over seeds in a row of a table, with its ends."""
    return Interval(*(float(row[name]) for name in ("mean", "low", "high")))


# Along training


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
    rows = evidence.curves.loc[
        np.isclose(evidence.curves["gamma"], gamma) & (evidence.curves["set"] == set)
    ]
    if rows.empty:
        raise MissingEvidenceError(f"This run has no learning curve of {set} at γ = {gamma:g}.")
    means = evidence.table("curves_summary", gamma=gamma, set=set, quantity=quantity)
    seeds = band(axes, rows, quantity, means, colour, style, label=label)
    steps(axes, float(rows["step"].max()))
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
    place = np.unique(np.linspace(0, len(seeds) - 1, DRAWN).round().astype(int))
    means = means.set_index("step").sort_index()
    means = means.loc[means.index.isin(seeds.index[place]) & (means["n"] == means["n"].max())]
    for values in seeds.iloc[place].clip(*limits).items():
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
    unit, name = next((u, n) for u, n in UNITS.items() if last >= 2 * u or u == 1)
    if log:
        unit, name = 1, " (log scale)"
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if last < 1e5 else (1,)))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_xlabel(f"training step{name}")
    axes.xaxis.set_major_formatter(lambda value, _place: f"{value / unit:,g}")


def kept_steps(axes: Axes, found: np.ndarray) -> None:
    """Axis of kept steps: logarithmic from the first on, linear before it."""
    first = float(found[found > 0].min()) if (found > 0).any() else 1.0
    axes.set_xscale("symlog", linthresh=first, linscale=0.5)
    axes.set_xlim(-0.2 * first, max(1.25 * float(found.max()), first))
    axes.xaxis.set_major_formatter(lambda value, _place: f"{value:,g}")
    axes.set_xticks([], minor=True)
    axes.set_xlabel("training step")


# Seeds by rate, or by name


@dataclass(frozen=True)
class Series:
    """A reading, its word in the legend, and its colour and marker, which are the rate's if
    empty."""

    quantity: str
    label: str = ""
    colour: str = ""
    marker: str = ""
    stage: str = "final"
    set: str = ""


def rates(
    axes: Axes,
    evidence: Evidence,
    probe: str,
    *series: Series,
    untrained: bool = False,
    joined: bool = False,
    read: str = "spread",
    spread: float = 0.07,
    beside: Callable[[float, Series, float], None] | None = None,
) -> None:
    """Readings of seeds at every rate, with median and range (``read`` = ``interval``: mean and 95
    % interval).

    Args:
        untrained: add the untrained models' mean as a grey bar. joined: join the members of a seed.
            spread: half of the width that seeds take. beside: draws more at a place: x, series,
                rate.

    Raises MissingEvidenceError where nothing was read at any rate.
    """
    shifts = np.linspace(-0.3, 0.3, len(series)) if len(series) > 1 else [0.0]
    drawn = 0
    for one, shift in zip(series, shifts, strict=True):
        where: dict[str, Any] = {"stage": one.stage, "set": one.set}
        lines: dict[float, pd.Series] = {}
        for place, gamma in enumerate(evidence.gammas):
            try:
                values = evidence.values(probe, one.quantity, gamma, **where)
            except MissingEvidenceError:
                continue
            over = getattr(evidence, read)(probe, one.quantity, gamma, **where)
            look = (
                one.colour or gamma_colour(gamma, evidence.gammas),
                one.marker or gamma_marker(gamma, evidence.gammas),
            )
            dots(axes, place + shift, values, over, *look, spread, "" if lines else one.label)
            lines[place + shift] = values
            if beside is not None:
                beside(place + shift + spread, one, gamma)
            if untrained:
                before = evidence.untrained(probe, one.quantity, gamma, **where)
                level(axes, place + shift - 0.12, before, GREY, 0.06, label="untrained models")
        drawn += len(lines)
        if joined:
            for seed in pd.DataFrame(lines).to_numpy():
                axes.plot(list(lines), seed, color=one.colour or GREY, lw=0.6, alpha=0.5, zorder=1)
    if not drawn:
        raise MissingEvidenceError(
            f"This run has no reading of {probe} ({', '.join(one.quantity for one in series)})."
        )
    rates_axis(axes, evidence)


def rates_axis(axes: Axes, evidence: Evidence) -> None:
    """One tick per rate, ascending, with the direction in words."""
    axes.set_xticks(range(len(evidence.gammas)), [f"{gamma:g}" for gamma in evidence.gammas])
    axes.set_xlim(-0.5, len(evidence.gammas) - 0.4)
    axes.set_xlabel("rate γ  (→ smaller initialisation)" if len(evidence.gammas) > 1 else "rate γ")


def named(
    axes: Axes,
    evidence: Evidence,
    found: Mapping[str, Mapping[float, tuple[ArrayLike, Interval]]],
    width: float = 0.25,
) -> None:
    """Seeds and their interval by name, the rates beside each other; ``found``: name -> rate ->
    values and interval."""
    gammas = evidence.gammas
    for gamma, shift in zip(
        gammas, np.linspace(-width, width, len(gammas)) if len(gammas) > 1 else [0], strict=True
    ):
        look = gamma_colour(gamma, gammas), gamma_marker(gamma, gammas), 0.035
        drawn = [
            (place, by_rate[gamma])
            for place, by_rate in enumerate(found.values())
            if gamma in by_rate
        ]
        for place, (values, interval) in drawn:
            dots(
                axes,
                place + shift,
                values,
                interval,
                *look,
                f"γ = {gamma:g}" if place == drawn[0][0] else "",
            )
    axes.set_xticks(range(len(found)), list(found))
    axes.set_xlim(-0.5, len(found) - 0.5)


def dots(
    axes: Axes,
    x: float,
    values: ArrayLike,
    interval: Interval | None,
    colour: Any,
    marker: str = "o",
    spread: float = 0.09,
    label: str = "",
) -> None:
    """Seeds as open dots beside each other; on their right the mean or median as a bar, its
    interval as a whisker."""
    values = np.asarray(values, dtype=float)
    places = x + (
        np.linspace(-spread, spread, len(values)) if len(values) > 1 else np.zeros(len(values))
    )
    look = {"ms": 3.6, "mfc": "white", "mec": colour, "mew": 0.9, "zorder": 3, "ls": ""}
    axes.plot(places, values, marker=marker, color=colour, label=label, **look)
    if interval is not None:
        x += 2.1 * spread
        level(axes, x, interval.estimate, colour, max(0.4 * spread, 0.02))
        if np.isfinite(interval.low):
            axes.plot([x, x], interval[1:], color=colour, lw=1.2, zorder=2)


def level(axes: Axes, x: float, y: float, colour: Any, half: float, label: str = "") -> None:
    """A level bar around a place: a mean, an untrained model, a null or a control."""
    axes.plot(
        [x - half, x + half],
        [y, y],
        color=colour,
        lw=2.2,
        zorder=4,
        solid_capstyle="butt",
        label=label,
    )


def stack(
    axes: Axes,
    place: float,
    shares: Mapping[str, float],
    look: Callable[[str], dict[str, Any]],
    alpha: float = 1.0,
    upright: bool = False,
) -> None:
    """Shares as the parts of one bar, from its beginning on; ``look``: name -> how its part is
    filled."""
    start = 0.0
    for name, share in shares.items():
        if share > 0:
            draw = axes.bar if upright else axes.barh
            draw(
                place,
                share,
                0.8,
                **{"bottom" if upright else "left": start},
                alpha=alpha,
                zorder=2,
                **look(name),
            )
            start += share


# Matrices, thresholds and words


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
    """A matrix whose NaN cells are hatched; ``write`` puts the values into the cells, in ``size``
    points."""
    matrix = np.asarray(matrix, dtype=float)
    look: dict[str, Any] = {
        "vmin": low,
        "vmax": high,
        "cmap": colours,
        "interpolation": "nearest",
        "aspect": aspect,
    }
    image = axes.imshow(np.ma.masked_invalid(matrix), **look)
    axes.spines[:].set_visible(False)
    for row, column in np.argwhere(np.isnan(matrix)).tolist():
        hatch(axes, row, column)
    for (row, column), value in np.ndenumerate(matrix):
        if write is not None and np.isfinite(value):
            ink, points = (
                "white" if is_dark(image.to_rgba(value)) else INK,
                size or min(7.0, 50 / max(matrix.shape)),
            )
            axes.text(
                column,
                row,
                write(float(value)),
                color=ink,
                fontsize=points,
                ha="center",
                va="center",
            )
    for names, ticks in (
        (columns if columns is not None else rows, axes.set_xticks),
        (rows, axes.set_yticks),
    ):
        if names is not None:
            ticks(range(len(names)), [str(name) for name in names])
    axes.tick_params(length=0)
    return image


def threshold(
    axes: Axes, evidence: Evidence, claim: str, number: int = 0, gamma: float | None = None
) -> None:
    """What a condition of a claim is judged against: dashed, across the panel or at one rate, if
    the run has it."""
    condition = evidence.condition(claim, number)
    if gamma is not None and gamma not in evidence.gammas:
        return
    place = 0.0 if gamma is None else evidence.gammas.index(gamma)
    ends, y = ([0, 1] if gamma is None else [place - 0.4, place + 0.4]), condition.threshold
    across = axes.get_yaxis_transform() if gamma is None else axes.transData
    axes.plot(ends, [y, y], color=INK, lw=0.9, ls=DASHED, zorder=1, transform=across)
    margin(axes, {f"{claim}\n{SIGNS[condition.operator]} {two_digits(y)}": y})


def margin(axes: Axes, words: Mapping[str, float]) -> None:
    """Words on the right of a panel, each at its height in data, so that none lies over data or
    over another one."""
    look: dict[str, Any] = {"fontsize": 6, "va": "center", "linespacing": 1.15}
    if len(words) == 1:
        for text, y in words.items():
            axes.annotate(text, (1.02, y), xycoords=axes.get_yaxis_transform(), **look)
        return
    axes.autoscale_view()
    in_panel, last = axes.transData - axes.transAxes, -1.0
    for text, y in sorted(words.items(), key=lambda one: one[1]):
        last = max(float(in_panel.transform((0, y))[1]), last + 0.085)
        axes.annotate(text, (1.02, last), xycoords="axes fraction", **look)


def zero(axes: Axes, y: float = 0.0) -> None:
    """A thin line at 0, or where nothing differs."""
    axes.axhline(y, color=GREY, lw=0.8, zorder=0)


def note(
    axes: Axes, text: str, at: tuple[float, float], coordinates: Any, halo: float = 2.0, **look: Any
) -> None:
    """Small text, readable on whatever lies under it; ``look`` goes to ``Axes.annotate``."""
    look = {"fontsize": 6.5, "zorder": 9, "textcoords": "offset points", "xytext": (0, 0), **look}
    axes.annotate(
        text,
        at,
        xycoords=coordinates,
        path_effects=[withStroke(linewidth=halo, foreground="white")],
        **look,
    )


def title_of(evidence: Evidence, gamma: float) -> str:
    """A rate and how many seeds it has, above a column of panels."""
    seeds = evidence.curves.loc[evidence.curves["gamma"] == gamma, "seed"].nunique()
    return f"γ = {gamma:g}   ({seeds_text(seeds)})"


# Whole figures, and their files


@styled
def draw(drawing: Drawing, evidence: Evidence) -> Figure:
    """A figure, with how many members never came to its stages; or a sentence on what the run lacks
    for it."""
    evidence.asked.clear()
    try:
        figure = drawing(evidence)
        if told := evidence.unreached(evidence.asked):
            words = [figure.get_supxlabel(), *textwrap.wrap(told, 110)]
            figure.supxlabel("\n".join(filter(None, words)), size="small")
        return figure
    except MissingEvidenceError as missing:
        figure = new_figure(1.2)
        say(figure.subplots(), str(missing), 90)
        return figure


@styled
def render(figure: Figure, format: str) -> bytes:
    """A figure as ``svg`` or ``png`` bytes, without date, so that equal figures give equal
    bytes."""
    buffer = BytesIO()
    figure.set_dpi(DPI)
    if format == "svg":
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})
    else:
        FigureCanvasAgg(figure).print_png(buffer, metadata={"Software": None})
    return buffer.getvalue()


@styled
def settle(figure: Figure) -> None:
    """Run the layout once and keep it, rounded: its last bits depend on memory, and names in the
    file on them."""
    figure.set_dpi(DPI)  # letters are not as wide at another one
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine("none")
        within: list[Any] = list(figure.subfigs)
        for part in within:
            part.bbox_relative.set_points(np.round(part.bbox_relative.get_points(), 6))
            within += part.subfigs
        for axes in figure.axes:
            axes.set_position(Bbox(np.round(axes.get_position(original=True).get_points(), 6)))


def save_figures(
    drawings: Mapping[str, Drawing], evidence: Evidence, folder: str | Path
) -> dict[str, bytes]:
    """Draw figures into a folder, as ``id.svg`` and ``id.png``; returns figure id -> its SVG."""
    images = {}
    for id, drawing in drawings.items():
        figure = draw(drawing, evidence)
        settle(figure)
        images[id] = render(figure, "svg")
        write_file(Path(folder) / f"{id}.svg", images[id])
        write_file(Path(folder) / f"{id}.png", render(figure, "png"))
    return images
