"""One look for every figure: colours, type, and files that are the same for the same evidence, never half written."""

import textwrap
from collections.abc import Callable, Mapping
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
from matplotlib.transforms import Bbox

from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.runs.store import write_file

__all__ = ["gamma_colour", "gamma_marker", "new_figure", "say", "styled"]

SETS = {"mem": "memory", "rsn_train": "reasoning, trained on", "rsn_test": "reasoning, held out"}
SET_COLOURS = {"mem": "#0a3d91", "rsn_train": "#bf6fc4", "rsn_test": "#e07b00"}
SET_LINES = {"mem": "-", "rsn_train": "-", "rsn_test": (0, (4, 1.6))}

CORPUS_COLOURS = {"prontoqa": "#c4312a", "stories": "#0a3d91", "control": "#4b9fd8"}
"""Red and blue as in the paper; ``control`` is made of stories too. Lightness and markers differ as well."""
CORPUS_MARKERS = {"prontoqa": "o", "stories": "s", "control": "D"}

KEY, REASONING, MEMORY, NOISE = "#d6c21a", "#6b3e1f", "#c39a6b", "#e4e4e4"
"""Roles and groups of tokens: key, reasoning anchors (and anchors of any kind), memory anchors, noise. No set has them,
and no rate."""
TRAINED = "#0c3f45"
"""What was trained or measured, beside what theory predicts: the dark end of the rates' ramp."""
RED, BLUE, GREY, INK = "#c4312a", "#0a3d91", "#8a8a8a", "#1c1c1c"

DASHED = (0, (3, 1.5))
"""The line of every threshold."""

COSINES = "RdBu_r"
GAMMA_RAMP = LinearSegmentedColormap.from_list("gamma", ["#9cc5bd", "#3f8f8b", "#0c3f45"])
ATTENTION = LinearSegmentedColormap.from_list("attention", ["#ffffff", "#bcd9d4", "#3f8f8b", "#0c3f45"])
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "p")

WIDTH = 7.2
"""Inches, the text width of a paper with one column."""

STYLE = {
    "font.size": 7.5, "axes.titlesize": 8, "axes.labelsize": 7.5, "xtick.labelsize": 7, "ytick.labelsize": 7,
    "legend.fontsize": 7, "legend.edgecolor": "none", "legend.borderpad": 0.2,
    "axes.titlelocation": "left", "axes.spines.top": False, "axes.spines.right": False,
    "axes.edgecolor": "#6b6b6b", "axes.linewidth": 0.7, "xtick.major.width": 0.6, "ytick.major.width": 0.6,
    "text.color": INK, "axes.labelcolor": INK, "xtick.color": "#444444", "ytick.color": "#444444",
    "path.simplify_threshold": 0.4, "svg.fonttype": "path", "svg.hashsalt": "rb_interp",
}  # fmt: skip

DPI = 150
Drawing = Callable[[Evidence], Figure]
SAID: dict[str, Any] = {"ha": "center", "va": "center", "color": "#555555", "style": "italic"}
"""The look of a sentence in place of what is not there."""
P = ParamSpec("P")
R = TypeVar("R")


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Run a drawing function with matplotlib's defaults and STYLE, whatever the caller has set; undone on leaving."""

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


@styled
def draw(drawing: Drawing, evidence: Evidence) -> Figure:
    """A figure; where the run lacks something for it, a figure with one sentence that says so.

    Below it stands how many members never came to a stage that it shows.
    """
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
    """A figure as ``svg`` or ``png`` bytes, without date, so that equal figures give equal bytes.

    The bytes are those of ``savefig``, which would draw each figure once more, for a layout that `settle` made already.
    """
    buffer = BytesIO()
    figure.set_dpi(DPI)
    if format == "svg":
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})
    else:
        FigureCanvasAgg(figure).print_png(buffer, metadata={"Software": None})
    return buffer.getvalue()


@styled
def settle(figure: Figure) -> None:
    """Run the layout once and keep it, so that saving twice does not pay for it twice.

    Places are rounded to a millionth of the figure: the layout's solver depends in the last bits on where in memory it
    works, and names in the file are made of them.
    """
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


def save_figures(drawings: Mapping[str, Drawing], evidence: Evidence, folder: str | Path) -> dict[str, bytes]:
    """Draw figures into a folder, as ``id.svg`` and ``id.png`` (150 dots per inch).

    Returns figure id -> its SVG. Raises RunError where the folder cannot be written.
    """
    images = {}
    for id, drawing in drawings.items():
        figure = draw(drawing, evidence)
        settle(figure)
        images[id] = render(figure, "svg")
        write_file(Path(folder) / f"{id}.svg", images[id])
        write_file(Path(folder) / f"{id}.png", render(figure, "png"))
    return images
