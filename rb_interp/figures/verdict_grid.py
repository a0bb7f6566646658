"""Verdicts of several runs side by side: which claims hold whatever was varied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rb_interp.errors import ConfigError
from rb_interp.figures import legend
from rb_interp.figures.style import new_figure, styled

LOOKS = {"HOLDS": ("#8cc5bf", ""), "FAILS": ("#e0a07c", "///"), "OPEN": ("#ededed", ""), "NOT JUDGED": ("#ffffff", "")}
EDGE = "#666666"
COLUMNS = ("id", "outcome", "n_meeting", "n_seeds")


@styled
def verdict_grid(verdicts: Mapping[str, pd.DataFrame], varied: str, *, marked: str = "") -> Figure:
    """A row for each claim, a column for each run: outcome as colour, seeds that meet the claim as text.

    Args:
        verdicts: what a run is called -> its table of verdicts, as `Verdicts.to_frame` gives it. Claims are ordered as
            in the first.
        varied: what differs between the runs, the label of the x axis.
        marked: name of a run to frame.

    Returns:
        The figure. A claim that a run has not judged is left blank; one without seeds shows ``-``.

    Raises:
        ConfigError: where there is no run, or a table lacks a column.

    >>> table = pd.DataFrame({"id": ["A1"], "outcome": ["HOLDS"], "n_meeting": [8], "n_seeds": [8]})
    >>> len(verdict_grid({"1e-3": table}, "learning rate").axes[0].patches)
    1
    """
    if not verdicts:
        raise ConfigError("verdict_grid got no run; give at least one, as {name: run.verdicts.to_frame()}.")
    for name, table in verdicts.items():
        missing = [column for column in COLUMNS if column not in table]
        if missing:
            raise ConfigError(f"the verdicts of '{name}' lack {missing}; give what Verdicts.to_frame() returns.")
    ids = list(dict.fromkeys(id for table in verdicts.values() for id in table["id"]))
    figure = new_figure(0.9 + 0.19 * len(ids), 1.2 + 0.75 * len(verdicts))
    axes = figure.subplots()
    for x, table in enumerate(verdicts.values()):
        for row in table.to_dict("records"):
            _cell(axes, x, ids.index(row["id"]), row)
    if marked in verdicts:
        x = list(verdicts).index(marked)
        axes.add_patch(Rectangle((x - 0.5, -0.5), 1, len(ids), fill=False, ec="#1c1c1c", lw=1.4))
    axes.set(xlim=(-0.55, len(verdicts) - 0.45), ylim=(len(ids) - 0.45, -0.55), xlabel=varied, ylabel="claim")
    axes.set_xticks(range(len(verdicts)), list(verdicts))
    axes.set_yticks(range(len(ids)), ids)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    legend.above(figure, [legend.area(name, *look, edge=EDGE) for name, look in LOOKS.items()], columns=len(LOOKS))
    return figure


def _cell(axes: Axes, x: int, y: int, row: Mapping[Any, Any]) -> None:
    colour, hatch = LOOKS[row["outcome"]]
    axes.add_patch(Rectangle((x - 0.46, y - 0.43), 0.92, 0.86, fc=colour, hatch=hatch, ec=EDGE, lw=0.4))
    text = f"{row['n_meeting']}/{row['n_seeds']}" if row["n_seeds"] else "-"
    box = {"fc": "white", "ec": "none", "pad": 0.8} if hatch else None
    axes.text(x, y, text, ha="center", va="center", fontsize=6.5, bbox=box)
