"""Whole figures: their look, the words in them, and their files.

The files are the same for the same evidence.
"""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from io import BytesIO
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.transforms import Bbox

from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.statistics.intervals import seeds_text
from rb_interp.store import write_file

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
P = ParamSpec("P")
R = TypeVar("R")


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Run a drawing function with matplotlib's defaults and STYLE, whatever the caller has set;
    undone on leaving."""

    @wraps(draw)
    def styled_draw(*args: P.args, **kwargs: P.kwargs) -> R:
        with matplotlib.style.context(["default", STYLE]):
            return draw(*args, **kwargs)

    return styled_draw


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """An empty figure outside pyplot, so that nothing global is opened or has to be closed."""
    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.05, h_pad=0.05))


def gamma_colour(gamma: float, gammas: list[float]) -> tuple:
    """Colour of a rate within a run: darker for a smaller initialisation."""
    return GAMMA_RAMP(gammas.index(gamma) / max(len(gammas) - 1, 1))


def gamma_marker(gamma: float, gammas: list[float]) -> str:
    """Marker of a rate within a run, so that no panel rests on colour alone."""
    return MARKERS[gammas.index(gamma) % len(MARKERS)]


def gamma_look(gamma: float, gammas: list[float]) -> tuple[tuple, str]:
    """Colour and marker of a rate within a run."""
    return gamma_colour(gamma, gammas), gamma_marker(gamma, gammas)


def panels(
    rows: int, columns: int, height: float, width: float = WIDTH, **shared: Any
) -> tuple[Figure, np.ndarray]:
    """A figure and its axes, ``rows`` by ``columns``; ``shared`` goes to ``Figure.subplots``."""
    figure = new_figure(height, width)
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)


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
    coordinates: Any = "data",
    **look: Any,
) -> None:
    """Small text, readable on whatever lies under it; ``look`` goes to ``Axes.annotate``."""
    look = {"fontsize": 6.5, "zorder": 9, "textcoords": "offset points", "xytext": (0, 0), **look}
    look["path_effects"] = [withStroke(linewidth=2.0, foreground="white")]
    axes.annotate(text, point, xycoords=coordinates, **look)


def title_of(evidence: Evidence, gamma: float) -> str:
    """A rate and how many seeds it has, above a column of panels."""
    seeds = set(evidence.curves.query("gamma == @gamma")["seed"])
    return f"γ = {gamma:g}   ({seeds_text(len(seeds))})"


DPI = 150
Drawing = Callable[[Evidence], Figure]


@styled
def draw(drawing: Drawing, evidence: Evidence) -> Figure:
    """A figure, with how many members never came to its stages.

    A run that lacks what the figure shows gives a sentence that says so.
    """
    evidence.requests.clear()
    try:
        figure = drawing(evidence)
    except MissingEvidenceError as missing:
        figure = new_figure(1.2)
        say(figure.subplots(), str(missing), 90)
        return figure
    if note := evidence.unreached(evidence.requests):
        lines = [figure.get_supxlabel(), *textwrap.wrap(note, 110)]
        figure.supxlabel("\n".join(filter(None, lines)), size="small")
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
