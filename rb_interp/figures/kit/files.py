"""Whole figures, and files that are the same for the same evidence."""

import textwrap
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.kit.style import new_figure, styled
from rb_interp.figures.kit.text import say
from rb_interp.store import write_file

DPI = 150
Drawing = Callable[[Evidence], Figure]


@styled
def draw(drawing: Drawing, evidence: Evidence) -> Figure:
    """A figure, with how many members never came to its stages.

    A run that lacks what the figure shows gives a sentence that says so.
    """
    evidence.asked.clear()
    try:
        figure = drawing(evidence)
    except MissingEvidenceError as missing:
        figure = new_figure(1.2)
        say(figure.subplots(), str(missing), 90)
        return figure
    if note := evidence.unreached(evidence.asked):
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
