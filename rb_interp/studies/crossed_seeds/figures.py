"""The crossing as a map, and the shares of variance beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import two_digits
from rb_interp.figures.panels import heat_map, try_panel
from rb_interp.figures.spec import Caption, FigureSpec
from rb_interp.figures.style import ATTENTION, INK, RED, new_figure, styled
from rb_interp.studies.crossed_seeds.report import COMPONENTS, component, component_text

SHORT = {"average-then-key": "average", "gather-at-last-anchor": "gather", "key-to-anchors": "anchors"}
"""Circuits -> what a cell says of them; other names are said whole."""


@styled
def draw_crossing(evidence: Evidence) -> Figure:
    """Share of the key's effect from its own position, and circuit, of every member, and whose seed decides it."""
    figure = new_figure(3.6)
    crossing, shares = figure.subplots(1, 2, width_ratios=(1.25, 1))
    try_panel(crossing, _crossing, evidence, figure)
    try_panel(shares, _shares, evidence)
    entries = [
        legend.area("both seeds the same: a member of the anchor study", "none", edge=RED, width=1.4),
        legend.line("share of variance, 95 % interval", INK, width=1.1, marker="o", ms=4.5),
    ]
    legend.above(figure, entries, columns=2)
    return figure


def _crossing(axes: Axes, evidence: Evidence, figure: Figure) -> None:
    members = evidence.table("crossing")
    rows, columns = (np.unique(members[name]).tolist() for name in ("data_seed", "seed"))
    values = members.pivot(index="data_seed", columns="seed", values="key_from_key").reindex(rows, columns=columns)
    shade = heat_map(axes, values.to_numpy(), low=0, high=1, colours=ATTENTION)
    for member in members.to_dict("records"):
        row, column, share = rows.index(member["data_seed"]), columns.index(member["seed"]), member["key_from_key"]
        ink: dict[str, Any] = {"color": "white" if share > 0.6 else INK, "ha": "center"}
        axes.text(column, row - 0.03, two_digits(share) if np.isfinite(share) else "", va="bottom", fontsize=7, **ink)
        name = str(member["circuit"])
        axes.text(column, row + 0.03, SHORT.get(name, name), va="top", fontsize=5.5, **ink)
        if member["data_seed"] == member["seed"]:
            frame = Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, fill=False, ec=RED, lw=1.4, zorder=5)
            axes.add_patch(frame)
    axes.set_xticks(range(len(columns)), [str(seed) for seed in columns])
    axes.set_yticks(range(len(rows)), [str(seed) for seed in rows])
    axes.set(xlabel="seed of the initial weights", ylabel="seed of the data")
    bar = figure.colorbar(shade, ax=axes, fraction=0.046, pad=0.03)
    bar.set_label("share of the key's effect from its own position")


def _shares(axes: Axes, evidence: Evidence) -> None:
    for place, (name, words) in enumerate(COMPONENTS.items()):
        share, low, high = component(evidence, name)
        axes.plot([low, high], [place, place], color=INK, lw=1.1)
        axes.plot([share], [place], "o", color=INK, ms=4.5)
        axes.text(0.0, place - 0.22, words, transform=axes.get_yaxis_transform(), fontsize=7.5)
    axes.axvline(0, color="#b0b0b0", lw=0.7, zorder=0)
    axes.set(xlim=(-1.04, 1.04), ylim=(len(COMPONENTS) - 0.5, -0.7), yticks=[], xlabel="share of the variance")
    axes.set_xticks([-1, -0.5, 0, 0.5, 1])
    axes.spines["left"].set_visible(False)


def caption_crossing(evidence: Evidence) -> Caption:
    """Caption of the crossing, with the shares of variance."""
    members = evidence.table("crossing")
    shares = ", ".join(f"{COMPONENTS[name]} {component_text(evidence, name)}" for name in COMPONENTS)
    here = {name: words for name, words in SHORT.items() if name in set(members["circuit"])}
    names = f" ({', '.join(f'{words}: {name}' for name, words in here.items())})" if here else ""
    return Caption(
        f"{len(members)} members: each seed of the data (rows, label table, order of batches) with each seed of the "
        "initial weights. Left: share of the key's effect on the answer that enters the last layer at the key's own "
        f"position, and below it the circuit by cause{names}. Right: the variance of that share, "
        f"divided between the two seeds: {shares}. The rest is interaction and noise: with one member in each cell the "
        "two cannot be told apart.",
        "that the data decide: rows that are not of one colour, and an interval of the difference below 0. That the "
        "initial weights decide: columns that are not of one colour, and an interval above 0. That neither does "
        "alone: a small rest.",
    )


FIGURES: tuple[FigureSpec, ...] = (
    FigureSpec("crossing", "Which seed decides the route of the key, and the circuit", draw_crossing, caption_crossing),
)
