"""Figures to files: the same evidence gives the same bytes, and no file is ever half written."""

from __future__ import annotations

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
from rb_interp.figures.kit import panels, say
from rb_interp.figures.style import styled
from rb_interp.runs.store import write_file

DPI = 150
Drawing = Callable[[Evidence], Figure]


@styled
def draw(drawing: Drawing, evidence: Evidence) -> Figure:
    """A figure; where the run lacks something for it, a figure with one sentence that says so."""
    try:
        return drawing(evidence)
    except MissingEvidenceError as missing:
        figure, [[axes]] = panels(1, 1, 1.2)
        say(axes, str(missing), 90)
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
