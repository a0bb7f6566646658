"""One look for every figure, the panels that figures are made of, and their files.

Each panel takes axes and what is drawn; a figure then gets one legend of everything that carries a
label. A panel inside ``with missing(axes):`` becomes a sentence where the run lacks what it would
show.
"""

# ruff: noqa: F401 (colours and markers are read as kit.RED and are no part of the API)

from rb_interp.figures.kit.files import Drawing, draw, render, save_figures, settle
from rb_interp.figures.kit.panels import (
    SIGNS,
    Series,
    band,
    curve,
    dots,
    heat_map,
    interval_of,
    kept_steps,
    level,
    named,
    rates,
    rates_axis,
    stack,
    steps,
    threshold,
    zero,
)
from rb_interp.figures.kit.style import (
    ATTENTION,
    BLUE,
    CORPUS_COLOURS,
    CORPUS_MARKERS,
    COSINES,
    DASHED,
    GAMMA_RAMP,
    GREY,
    INK,
    KEY,
    MARKERS,
    MEMORY,
    NOISE,
    REASONING,
    RED,
    SET_COLOURS,
    SET_LINES,
    SETS,
    TRAINED,
    WIDTH,
    gamma_colour,
    gamma_marker,
    new_figure,
    panels,
    styled,
)
from rb_interp.figures.kit.text import key, legend, line, margin, missing, note, say, title_of

__all__ = [
    "Series",
    "band",
    "curve",
    "dots",
    "draw",
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
    "render",
    "save_figures",
    "say",
    "settle",
    "stack",
    "steps",
    "styled",
    "threshold",
    "title_of",
    "zero",
]
