"""The look of every figure: colours, markers, text sizes, and empty figures in this look."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import matplotlib.style
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

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


def panels(
    rows: int, columns: int, height: float, width: float = WIDTH, **shared: Any
) -> tuple[Figure, np.ndarray]:
    """A figure and its axes, ``rows`` by ``columns``; ``shared`` goes to ``Figure.subplots``."""
    figure = new_figure(height, width)
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)
